package capture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Errors of devices that a user can act on.
var (
	ErrDevice = errors.New("no such device")
	ErrLink   = errors.New("unsupported link layer")
	ErrRights = errors.New("capturing requires CAP_NET_RAW")
)

// links are the link layers by the kernel's device type.
var links = map[string]layers.LinkType{
	"ether": layers.LinkTypeEthernet, "loopback": layers.LinkTypeEthernet, "none": layers.LinkTypeRaw,
	"ieee802.11/radiotap": layers.LinkTypeIEEE80211Radio,
}

// findDevice uses netlink, since /sys may show another namespace.
func findDevice(name string) (*netlink.LinkAttrs, layers.LinkType, error) {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return nil, 0, fmt.Errorf("capture on device %q: %w", name, ErrDevice)
	}
	link, known := links[device.Attrs().EncapType]
	if !known {
		return nil, 0, fmt.Errorf("capture on device %q: %w: device type %q; Ethernet, loopback, tun and radiotap are supported",
			name, ErrLink, device.Attrs().EncapType)
	}
	return device.Attrs(), link, nil
}

// readDevice captures until the context ends or the device disappears.
func (c *capture) readDevice(ctx context.Context, device string) (err error) {
	found, link, err := findDevice(device)
	if err != nil {
		return err
	}
	handle, err := c.open(found, link)
	if err != nil {
		return err
	}
	defer c.watch(ctx, handle)()
	if c.o.Ready != nil {
		c.o.Ready()
	}
	for !c.enough() {
		data, info, err := handle.ZeroCopyReadPacketData()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("capture on device %q: %w", device, err)
		}
		if info.InterfaceIndex != found.Index { // received before the socket was bound
			c.skip(reasonDevice)
			continue
		}
		p := Packet{Time: info.Timestamp, Link: link, Data: data, Length: info.Length}
		if len(info.AncillaryData) > 0 {
			if tag, ok := info.AncillaryData[0].(int); ok {
				vlan := uint16(tag)
				p.VLAN = &vlan
			}
		}
		if err := c.take(p); err != nil {
			return err
		}
	}
	return nil
}

// open starts the capture.
func (c *capture) open(found *netlink.LinkAttrs, link layers.LinkType) (*pcapgo.EthernetHandle, error) {
	device := found.Name
	filter, err := compileFilter(c.o.Filter, link)
	if err != nil {
		return nil, err
	}
	handle, err := pcapgo.NewEthernetHandle(device)
	if err != nil {
		if unix.Geteuid() != 0 { // the library does not keep the cause
			return nil, fmt.Errorf("capture on device %q: %w: %w", device, ErrRights, err)
		}
		return nil, fmt.Errorf("capture on device %q: %w", device, err)
	}
	if err = handle.SetCaptureLength(c.o.Snap); err == nil {
		err = attach(handle, filter, found.Flags&net.FlagLoopback != 0)
	}
	if err == nil && c.o.Promiscuous {
		err = handle.SetPromiscuous(true)
	}
	if err != nil {
		handle.Close()
		return nil, fmt.Errorf("capture on device %q: %w", device, err)
	}
	return handle, nil
}

const packetOutgoing = 4 // PACKET_OUTGOING

// attach installs the filter in the kernel. Loopback delivers every packet when it is
// sent and when it is received; only the latter is kept, as in tcpdump.
func attach(handle *pcapgo.EthernetHandle, f *filter, once bool) error {
	var code []bpf.Instruction
	if once {
		code = append(code, bpf.LoadExtension{Num: bpf.ExtType},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: packetOutgoing, SkipFalse: 1}, bpf.RetConstant{})
	}
	switch {
	case f != nil:
		code = append(code, f.code...)
	case once:
		code = append(code, bpf.RetConstant{Val: maxSnap})
	default:
		return nil
	}
	raw, err := bpf.Assemble(code)
	if err != nil {
		return err
	}
	return handle.SetBPF(raw)
}

// watch polls the kernel's counters, and stops the capture when the context ends. The
// function that it returns stops it and waits.
func (c *capture) watch(ctx context.Context, handle *pcapgo.EthernetHandle) func() {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer handle.Close() // wakes the reader
		ticks := time.NewTicker(c.o.Every)
		defer ticks.Stop()
		for stop := false; !stop; {
			select {
			case <-ctx.Done():
				stop = true
			case <-ticks.C:
			}
			c.drops(handle) // also at the end
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// drops reads the kernel's counters, which reading resets.
func (c *capture) drops(handle *pcapgo.EthernetHandle) {
	stats, err := handle.Stats()
	if err != nil {
		return
	}
	c.mu.Lock()
	c.kernel += uint64(stats.Packets)
	c.tally.Dropped += uint64(stats.Drops)
	tally := c.tally.clone()
	c.mu.Unlock()
	if c.o.Tallied != nil {
		c.o.Tallied(tally)
	}
}
