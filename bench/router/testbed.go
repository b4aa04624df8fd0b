package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/vishvananda/netns"

	space "pillion.dev/internal/netns"
	"pillion.dev/probe/router"
)

const (
	namePrefix = "pl-router-"
	udpPort    = 9 // discard
)

// processors of the three hosts. With too few they share: the receiver with the sender, or
// all the only one.
type processors struct {
	Sender   int `json:"sender"`
	Router   int `json:"router"`
	Receiver int `json:"receiver"`
}

func spread() processors {
	switch n := runtime.NumCPU(); {
	case n >= 3:
		return processors{0, 1, 2}
	case n == 2:
		return processors{0, 1, 0}
	}
	return processors{}
}

// testbed is sender, router and receiver, each in its own namespace.
type testbed struct {
	sender, router, receiver string
}

// Devices: "out" of both hosts, in0 and in1 of the router.
var (
	senderMAC, inputMAC    = "02:70:6c:72:01:02", "02:70:6c:72:01:01"
	receiverMAC, outputMAC = "02:70:6c:72:02:02", "02:70:6c:72:02:01"
	target                 = netip.MustParseAddr("10.253.82.2")
)

// buildTestbed creates the three. With steered, router and receiver process incoming
// packets on their own processors; otherwise a packet's whole way is on the sender's.
// Neighbours are static and IPv6 is off, so that only measured packets are sent.
func buildTestbed(steered bool) (*testbed, error) {
	if err := space.DeleteStale(namePrefix); err != nil {
		return nil, err
	}
	prefix := namePrefix + strconv.Itoa(os.Getpid())
	t := &testbed{prefix + "-s", prefix + "-r", prefix + "-d"}
	if err := t.build(steered); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *testbed) build(steered bool) error {
	p := spread()
	for _, host := range []struct {
		name string
		cpu  int
	}{{t.sender, p.Sender}, {t.router, p.Router}, {t.receiver, p.Receiver}} {
		if err := space.Create(host.name); err != nil {
			return err
		}
		settings := []string{"net/ipv6/conf/default/disable_ipv6=1"}
		if steered {
			settings = append(settings, fmt.Sprintf("net/core/rps_default_mask=%x", 1<<host.cpu))
		}
		if err := run(host.name, "sysctl", append([]string{"-qw"}, settings...)...); err != nil {
			return err
		}
	}
	if err := run(t.router, "sysctl", "-qw", "net/ipv4/ip_forward=1"); err != nil {
		return err
	}
	return errors.Join(
		t.join(t.sender, "in0", senderMAC, inputMAC, "10.253.81"),
		t.join(t.receiver, "in1", receiverMAC, outputMAC, "10.253.82"))
}

// join connects a host with the router.
func (t *testbed) join(host, side, hostMAC, sideMAC, network string) error {
	return errors.Join(
		space.IP(host, fmt.Sprintf("link add out address %s type veth peer name %s netns %s address %s", hostMAC, side, t.router, sideMAC),
			"link set lo up", "link set out up",
			"address add "+network+".2/30 dev out",
			"route add default via "+network+".1",
			"neighbour replace "+network+".1 lladdr "+sideMAC+" dev out nud permanent"),
		space.IP(t.router, "link set lo up", "link set "+side+" up",
			"address add "+network+".1/30 dev "+side,
			"neighbour replace "+network+".2 lladdr "+hostMAC+" dev "+side+" nud permanent"))
}

// Close removes the namespaces and their contents.
func (t *testbed) Close() error {
	return errors.Join(space.Delete(t.sender), space.Delete(t.router), space.Delete(t.receiver))
}

// profile opens the router's profile.
func (t *testbed) profile(o router.Options) (*router.Router, error) {
	handle, err := netns.GetFromPath(space.Path(t.router))
	if err != nil {
		return nil, fmt.Errorf("open namespace: %w", err)
	}
	defer handle.Close()
	o.Netns = int(handle)
	return router.Open(o)
}

func run(namespace, name string, arguments ...string) error {
	_, err := space.Run(namespace, exec.Command(name, arguments...))
	return err
}
