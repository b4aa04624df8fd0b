package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"

	"pillion.dev/internal/netns"
	"pillion.dev/send"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
)

const (
	namePrefix            = "pl-send-"
	nearDevice, farDevice = "near0", "far0"
	nearAddress           = "192.0.2.1"
	farAddress            = "192.0.2.2"
	port                  = 9 // discard
	floodPort             = 10
	iperfPort             = 5201
)

// bed is a sender and a receiver, each in its own network namespace, and a line between
// them: a veth pair, or a bridge that sends at a limited rate.
type bed struct {
	near, far string
	line      string // the namespace of the bridge; empty without one
	namespace *os.File
	header    *frame.Header
	discard   net.PacketConn
}

// newBed builds a bed; rate in bit/s, 0 for a veth pair alone.
func newBed(rate float64) (*bed, error) {
	prefix := namePrefix + strconv.Itoa(os.Getpid())
	b := &bed{near: prefix + "-n", far: prefix + "-f"}
	if rate > 0 {
		b.near, b.far, b.line = prefix+"-ln", prefix+"-lf", prefix+"-l"
	}
	if err := b.build(rate); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *bed) build(rate float64) (err error) {
	for _, name := range b.namespaces() {
		if err := netns.Create(name); err != nil {
			return err
		}
	}
	if err := b.connect(rate); err != nil {
		return err
	}
	if b.namespace, err = os.Open(netns.Path(b.near)); err != nil {
		return err
	}
	// Without a socket, the far end answers packets with ICMP errors. On a veth pair that is
	// processor time of the sender, between two of its packets.
	err = netns.Do(b.far, func() (err error) {
		b.discard, err = net.ListenPacket("udp4", net.JoinHostPort(farAddress, strconv.Itoa(port)))
		return err
	})
	if err != nil {
		return err
	}
	b.header = &frame.Header{Destination: netip.MustParseAddr(farAddress), Protocol: frame.UDP, SourcePort: 50000, DestinationPort: port}
	return netns.Do(b.near, func() error { return send.Address(b.header, nearDevice) })
}

// connect makes the line.
func (b *bed) connect(rate float64) error {
	if rate == 0 {
		err := netns.IP(b.near, "link add near0 type veth peer name far0 netns "+b.far)
		return errors.Join(err, b.configure())
	}
	err := netns.IP(b.line, "link add br0 type bridge", "link add in0 master br0 type veth peer name near0 netns "+b.near,
		"link add out0 master br0 type veth peer name far0 netns "+b.far, "link set br0 up", "link set in0 up", "link set out0 up")
	if err == nil {
		_, err = netns.Run(b.line, exec.Command("tc", "qdisc", "add", "dev", "out0", "root", "tbf",
			"rate", fmt.Sprintf("%.0f", rate), "burst", "1600", "limit", "1000000"))
	}
	return errors.Join(err, b.configure())
}

func (b *bed) configure() error {
	return errors.Join(
		netns.IP(b.near, "link set lo up", "link set near0 up", "addr add "+nearAddress+"/24 dev near0"),
		netns.IP(b.far, "link set lo up", "link set far0 up", "addr add "+farAddress+"/24 dev far0"))
}

// Close deletes the namespaces.
func (b *bed) Close() error {
	if b.namespace != nil {
		b.namespace.Close()
	}
	if b.discard != nil {
		b.discard.Close()
	}
	var failures []error
	for _, name := range b.namespaces() {
		failures = append(failures, netns.Delete(name))
	}
	return errors.Join(failures...)
}

func (b *bed) namespaces() []string {
	if b.line != "" {
		return []string{b.near, b.far, b.line}
	}
	return []string{b.near, b.far}
}

// observe sees packets reach the driver of the sender's device.
func (b *bed) observe(trains, packets int) (*observer.Observer, error) {
	return b.observeAt(observer.Departure, trains, packets)
}

func (b *bed) observeAt(place observer.Place, trains, packets int) (o *observer.Observer, err error) {
	namespace, name := b.near, nearDevice
	if place == observer.Arrival {
		namespace, name = b.far, farDevice
	}
	overhead, err := b.header.Overhead()
	if err != nil {
		return nil, err
	}
	const link = 14
	err = netns.Do(namespace, func() error {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		o, err = observer.Open(place, device.Index, overhead-link, trains, packets)
		return err
	})
	return o, err
}
