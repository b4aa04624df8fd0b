package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"pillion.dev/internal/netns"
)

const namePrefix = "pl-bench-"

// side is one end of the veth pair, in its own namespace.
type side struct {
	namespace string
	device    string
	address6  netip.Addr
	address4  netip.Addr
	mac       string
}

// testbed is two namespaces and a veth pair between them. Traffic goes from
// source to destination.
type testbed struct {
	source, destination side
}

// buildTestbed creates the testbed, after removing testbeds of crashed runs.
// Neighbours are static and duplicate address detection is off, so that only
// the measured packets cross the pair.
func buildTestbed(mtu int) (*testbed, error) {
	if err := netns.DeleteStale(namePrefix); err != nil {
		return nil, err
	}
	pid := strconv.Itoa(os.Getpid())
	t := &testbed{
		source: side{namePrefix + pid + "-a", namePrefix + "a",
			netip.MustParseAddr("fd70:6c62::1"), netip.MustParseAddr("10.253.77.1"), "02:70:6c:62:00:0a"},
		destination: side{namePrefix + pid + "-b", namePrefix + "b",
			netip.MustParseAddr("fd70:6c62::2"), netip.MustParseAddr("10.253.77.2"), "02:70:6c:62:00:0b"},
	}
	if err := t.build(mtu); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *testbed) build(mtu int) error {
	a, b := t.source, t.destination
	for _, s := range []side{a, b} {
		if err := netns.Create(s.namespace); err != nil {
			return err
		}
	}
	err := netns.IP(a.namespace, fmt.Sprintf("link add %s address %s mtu %d type veth peer name %s netns %s address %s mtu %d",
		a.device, a.mac, mtu, b.device, b.namespace, b.mac, mtu))
	if err != nil {
		return err
	}
	for _, end := range []struct{ own, far side }{{a, b}, {b, a}} {
		dev := " dev " + end.own.device
		err := netns.IP(end.own.namespace,
			"link set lo up",
			"link set"+dev+" addrgenmode none up",
			"address add "+end.own.address6.String()+"/64"+dev+" nodad",
			"address add "+end.own.address4.String()+"/30"+dev,
			"neighbour replace "+end.far.address6.String()+" lladdr "+end.far.mac+dev+" nud permanent",
			"neighbour replace "+end.far.address4.String()+" lladdr "+end.far.mac+dev+" nud permanent")
		if err != nil {
			return err
		}
	}
	for _, s := range []side{a, b} {
		if err := netns.AwaitUp(s.namespace, s.device, s.address6); err != nil {
			return err
		}
	}
	return nil
}

// segment has the source's device leave no buffer whole, and the destination's merge what
// arrives.
func (t *testbed) segment() error {
	for _, change := range []struct {
		side      side
		arguments []string
	}{
		{t.source, []string{"tso", "off", "gso", "off"}},
		{t.destination, []string{"gro", "on"}},
	} {
		err := netns.Do(change.side.namespace, func() error {
			_, err := run("ethtool", append([]string{"-K", change.side.device}, change.arguments...)...)
			return err
		})
		if err != nil {
			return fmt.Errorf("set offloads of %s: %w", change.side.device, err)
		}
	}
	return nil
}

// Close removes the namespaces, and with them the pair.
func (t *testbed) Close() error {
	return errors.Join(netns.Delete(t.source.namespace), netns.Delete(t.destination.namespace))
}

// index returns the interface index of the device; call it in its namespace.
func (s side) index() (int, error) {
	device, err := net.InterfaceByName(s.device)
	if err != nil {
		return 0, fmt.Errorf("find %s in %s: %w", s.device, s.namespace, err)
	}
	return device.Index, nil
}
