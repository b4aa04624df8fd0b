//go:build toy

package module

import (
	"encoding/binary"
	"flag"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/measure/module"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/wire"
)

// toyRow is a way to mark packets.
type toyRow struct {
	name           string
	encoding       wire.Encoding
	modules        wire.Module
	tagged, sparse bool
	six, xdp       bool
	flow           flow.Fields // 0: all
	add            int         // bytes of the mark
}

// toyRows are those that every run tries; moreToyRows those of a long one.
var (
	toyRows = []toyRow{
		{"native both", wire.Native, wire.Delay | wire.Loss, false, false, true, false, 0, 32},
		{"native tagged", wire.Native, wire.Delay | wire.Loss, true, false, true, false, 0, 40},
		{"native XDP", wire.Native, wire.Loss, false, false, true, true, 0, 16},
		{"native aggregate", wire.Native, wire.Delay | wire.Loss, false, false, true, false, flow.Src | flow.Dst, 32},
		{"native aggregate loss", wire.Native, wire.Loss, true, false, true, false, flow.Src | flow.Dst, 40},
		{"shim loss tagged", wire.Shim, wire.Loss, true, false, false, false, 0, 32},
		{"udp", wire.UDP, wire.Delay | wire.Loss, false, false, false, false, 0, 56},
	}
	moreToyRows = []toyRow{
		{"native loss", wire.Native, wire.Loss, false, false, true, false, 0, 16},
		{"native delay", wire.Native, wire.Delay, false, false, true, false, 0, 24},
		{"native sparse", wire.Native, wire.Delay | wire.Loss, false, true, true, false, 0, 32},
		{"native aggregate loss untagged", wire.Native, wire.Loss, false, false, true, false, flow.Src | flow.Dst, 16},
		{"shim aggregate", wire.Shim, wire.Delay | wire.Loss, false, false, false, false, flow.Src | flow.Dst, 28},
		{"native both XDP", wire.Native, wire.Delay | wire.Loss, false, false, true, true, 0, 32},
		{"shim both", wire.Shim, wire.Delay | wire.Loss, false, false, false, false, 0, 28},
		{"ipip", wire.IPIP, wire.Delay | wire.Loss, false, false, false, false, 0, 48},
		{"udp delay", wire.UDP, wire.Delay, false, false, false, false, 0, 52},
		{"udp XDP", wire.UDP, wire.Loss, false, false, false, true, 0, 40},
	}
)

var toyLong = flag.Bool("toylong", false, "try all ways to mark packets")

// TestToyPackets marks packets with hop limit 64, takes away 1 to 10, and reads them: in the
// namespace, a packet is marked at toy-a and arrives at toy-b, where the test changes it and
// puts it on toy-c; it is read at toy-d.
func TestToyPackets(t *testing.T) {
	toy := module.Find("hop-count")
	if toy == nil {
		t.Fatal("the module hop-count is not described: this test is run by TestToyModule")
	}
	rows := toyRows
	if *toyLong {
		rows = append(rows, moreToyRows...)
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if size := row.encoding.Size(row.modules|tagModules(row.tagged), row.tagged, row.sparse || row.flow != 0, 4); size != row.add {
				t.Errorf("package wire says that a mark has %d bytes, want %d", size, row.add)
			}
			ns := namespace.New(t)
			if err := netns.IP(ns, "link add toy-a type veth peer name toy-b", "link add toy-c type veth peer name toy-d",
				"link set toy-a up", "link set toy-b up", "link set toy-c up", "link set toy-d up"); err != nil {
				t.Fatal(err)
			}
			err := netns.Do(ns, func() error {
				return measureToy(t, toy, row)
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func tagModules(tagged bool) wire.Module {
	if tagged {
		return wire.Delay | wire.Loss
	}
	return 0
}

func measureToy(t *testing.T, toy *module.Descriptor, row toyRow) error {
	key := wire.Key{1, 2, 3}
	settings := source.Settings{
		Policy: source.Policy{Modules: row.modules, Extra: []string{"hop-count"}, Encodings: wire.EncodingList{row.encoding}, Tagged: row.tagged, Marking: wire.Marking{StampEvery: 1, SparseMarks: row.sparse, Flow: row.flow}},
	}
	peers := destination.Peers{}
	if row.tagged {
		settings.Keys = map[netip.Prefix]wire.Key{netip.MustParsePrefix("::/0"): key, netip.MustParsePrefix("0.0.0.0/0"): key}
		peers[netip.Prefix{}] = destination.Peer{Keys: []wire.Key{key}}
	}
	a, err := hook.Find("toy-a")
	if err != nil {
		return err
	}
	d, err := hook.Find("toy-d")
	if err != nil {
		return err
	}
	from, err := source.Open(a, settings)
	if err != nil {
		return fmt.Errorf("open source: %w", err)
	}
	defer from.Close()
	if err := from.Renew(source.Forever); err != nil {
		return err
	}
	to, err := destination.Open(d, destination.Settings{XDP: row.xdp, Peers: peers, Flow: row.flow})
	if err != nil {
		return fmt.Errorf("open destination: %w", err)
	}
	defer to.Close()
	return exchange(t, toy, from, to, row.six, row.add)
}

const toyPackets = 10

// exchange sends packets through both programs and compares the rows.
func exchange(t *testing.T, toy *module.Descriptor, from *source.Source, to *destination.Destination, six bool, add int) error {
	out, err := newTap("toy-a")
	if err != nil {
		return err
	}
	defer unix.Close(out.fd)
	middle, err := newTap("toy-b")
	if err != nil {
		return err
	}
	defer unix.Close(middle.fd)
	in, err := newTap("toy-c")
	if err != nil {
		return err
	}
	defer unix.Close(in.fd)
	for i := range toyPackets {
		frame := toyFrame(six)
		if err := out.send(frame); err != nil {
			return err
		}
		marked, err := middle.receive()
		if err != nil {
			return err
		}
		if len(marked) != len(frame)+add {
			t.Fatalf("a packet of %d bytes became one of %d, want %d more: %x", len(frame), len(marked), add, marked)
		}
		if err := in.send(routed(marked, byte(1+i))); err != nil {
			return err
		}
	}
	tally := destination.Tally{}
	for deadline := time.Now().Add(hang.Limit); tally.Packets < toyPackets && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if tally, err = to.Tally(); err != nil {
			return err
		}
	}
	if tally.Packets != toyPackets || tally.Restored != toyPackets || tally.ModuleStatesFull != 0 {
		t.Errorf("%+v", tally)
	}
	rows, err := to.Read(destination.ByFlow)
	if err != nil {
		return err
	}
	if len(rows) != 1 || rows[0].States()[toy] == nil {
		t.Fatalf("%d rows, %+v", len(rows), rows)
	}
	values := toy.Values(rows[0].States()[toy])
	if values[0].Uint64() != toyPackets || values[1].Int64() != 1 || values[2].Float64() != 5.5 || values[3].Int64() != toyPackets {
		t.Errorf("%v, want the values from 1 to %d", values, toyPackets)
	}
	again, err := to.Read(destination.ByFlow)
	if err != nil || len(again) != 0 {
		t.Errorf("%d rows without packets: %v", len(again), err)
	}
	return nil
}

// tap is a packet socket on a device.
type tap struct {
	fd      int
	address unix.SockaddrLinklayer
}

func newTap(device string) (*tap, error) {
	found, err := hook.Find(device)
	if err != nil {
		return nil, err
	}
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		return nil, err
	}
	t := &tap{fd, unix.SockaddrLinklayer{Ifindex: found.Index, Protocol: all}}
	if err := unix.Bind(fd, &t.address); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
}

func (t *tap) send(frame []byte) error { return unix.Sendto(t.fd, frame, 0, &t.address) }

// receive returns the next of the test's own frames.
func (t *tap) receive() ([]byte, error) {
	for {
		buffer := make([]byte, 2048)
		n, _, err := unix.Recvfrom(t.fd, buffer, 0)
		if err != nil {
			return nil, fmt.Errorf("receive frame: %w", err)
		}
		if n > 14 && string(buffer[6:12]) == toySource {
			return buffer[:n], nil
		}
	}
}

const toySource = "\x02\x00\x00\x00\x00\x01"

// toyFrame is a UDP datagram with hop limit 64.
func toyFrame(six bool) []byte {
	packet := []byte{0x60, 0, 0, 0, 0, 16, 17, 64}
	kind := uint16(0x86dd)
	if six {
		packet = append(packet, netip.MustParseAddr("2001:db8::1").AsSlice()...)
		packet = append(packet, netip.MustParseAddr("2001:db8::2").AsSlice()...)
	} else {
		kind = 0x0800
		packet = []byte{0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
		seal(packet)
	}
	frame := binary.BigEndian.AppendUint16([]byte("\x02\x00\x00\x00\x00\x02"+toySource), kind)
	return append(append(frame, packet...), 0xc0, 0, 0, 9, 0, 16, 0, 0, 'p', 'i', 'l', 'l', 'i', 'o', 'n', '!')
}

// routed is the frame behind routers, each of which lowers the hop limit of the outermost header.
func routed(frame []byte, routers byte) []byte {
	if frame[14]>>4 == 6 {
		frame[14+7] -= routers
		return frame
	}
	frame[14+8] -= routers
	seal(frame[14:34])
	return frame
}

// seal sets the checksum of an IPv4 header.
func seal(header []byte) {
	header[10], header[11] = 0, 0
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(header[10:], ^uint16(sum))
}
