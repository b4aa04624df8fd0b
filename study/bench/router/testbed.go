package main

import (
	"context"
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
	port       = 9 // discard
	// Of the token bucket that limits the output. Two packets fit the bucket: with one only,
	// each wait for a timer would lower the rate.
	lineBurst = 3200
	lineQueue = 1_000_000 // bytes
)

// Numbers of the networks in addresses.
const (
	senderNetwork   = 81
	receiverNetwork = 82
	rivalNetwork    = 83
)

// processors of the three hosts. With too few they share: the receiver with the sender, or
// all the only one.
type processors struct{ sender, router, receiver int }

func spread() processors {
	switch n := runtime.NumCPU(); {
	case n >= 3:
		return processors{0, 1, 2}
	case n == 2:
		return processors{0, 1, 0}
	}
	return processors{}
}

// layout is what a testbed can differ in.
type layout struct {
	family int     // 4 or 6
	mbit   float64 // rate of the router's output; 0: the rate of the veth pair
	// steered: router and receiver process incoming packets on their own processors;
	// otherwise a packet's whole way is on the sender's.
	steered bool
}

// testbed is a router between a sender and a receiver, and beside the sender a rival whose
// traffic leaves by the same output: each in its own namespace. Neighbours are static, and
// the router's inputs are in0 and in2, its output in1.
type testbed struct {
	layout
	sender, router, receiver, rival string
}

// link of a host with the router.
type network struct {
	host, side       string // namespace of the host, device of the router
	number           int
	hostMAC, sideMAC string
}

func (t *testbed) networks() []network {
	mac := func(network, end int) string { return fmt.Sprintf("02:70:6c:72:%02x:%02x", network, end) }
	return []network{
		{t.sender, "in0", senderNetwork, mac(1, 2), mac(1, 1)},
		{t.receiver, "in1", receiverNetwork, mac(2, 2), mac(2, 1)},
		{t.rival, "in2", rivalNetwork, mac(3, 2), mac(3, 1)},
	}
}

// address of the host (2) or the router (1) on a network.
func (t *testbed) address(network, end int) netip.Addr {
	if t.family == 6 {
		return netip.MustParseAddr(fmt.Sprintf("fd70:6c72:%d::%d", network, end))
	}
	return netip.MustParseAddr(fmt.Sprintf("10.253.%d.%d", network, end))
}

// target is the receiver's address.
func (t *testbed) target() netip.Addr { return t.address(receiverNetwork, 2) }

func buildTestbed(l layout) (*testbed, error) {
	if err := space.DeleteStale(namePrefix); err != nil {
		return nil, err
	}
	prefix := namePrefix + strconv.Itoa(os.Getpid())
	t := &testbed{l, prefix + "-s", prefix + "-r", prefix + "-d", prefix + "-c"}
	if err := t.build(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *testbed) build() error {
	p := spread()
	for _, host := range []struct {
		name string
		cpu  int
	}{{t.sender, p.sender}, {t.router, p.router}, {t.receiver, p.receiver}, {t.rival, p.sender}} {
		if err := space.Create(host.name); err != nil {
			return err
		}
		settings := []string{"net/ipv6/conf/default/disable_ipv6=1"}
		if t.family == 6 {
			settings = []string{"net/ipv6/conf/default/accept_ra=0", "net/ipv6/conf/default/router_solicitations=0", "net/ipv6/conf/default/dad_transmits=0"}
		}
		if t.steered {
			settings = append(settings, fmt.Sprintf("net/core/rps_default_mask=%x", 1<<host.cpu))
		}
		if err := run(host.name, "sysctl", append([]string{"-qw"}, settings...)...); err != nil {
			return err
		}
	}
	forward := "net/ipv4/ip_forward=1"
	if t.family == 6 {
		forward = "net/ipv6/conf/all/forwarding=1"
	}
	if err := run(t.router, "sysctl", "-qw", forward); err != nil {
		return err
	}
	for _, n := range t.networks() {
		if err := t.join(n); err != nil {
			return err
		}
	}
	for _, n := range t.networks() {
		if err := errors.Join(space.AwaitUp(n.host, "out", t.address(n.number, 2)), space.AwaitUp(t.router, n.side, t.address(n.number, 1))); err != nil {
			return err
		}
	}
	if t.mbit == 0 {
		return nil
	}
	return run(t.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", fmt.Sprintf("%.0f", t.mbit*1e6),
		"burst", strconv.Itoa(lineBurst), "limit", strconv.Itoa(lineQueue))
}

// join connects a host with the router.
func (t *testbed) join(n network) error {
	bits, flags := "/30", ""
	if t.family == 6 {
		bits, flags = "/64", " nodad"
	}
	near, far := t.address(n.number, 2), t.address(n.number, 1)
	return errors.Join(
		space.IP(n.host, fmt.Sprintf("link add out address %s type veth peer name %s netns %s address %s", n.hostMAC, n.side, t.router, n.sideMAC),
			"link set lo up", "link set out up",
			fmt.Sprintf("address add %s%s dev out%s", near, bits, flags),
			fmt.Sprintf("route add default via %s dev out", far),
			fmt.Sprintf("neighbour replace %s lladdr %s dev out nud permanent", far, n.sideMAC)),
		space.IP(t.router, "link set lo up", "link set "+n.side+" up",
			fmt.Sprintf("address add %s%s dev %s%s", far, bits, n.side, flags),
			fmt.Sprintf("neighbour replace %s lladdr %s dev %s nud permanent", near, n.hostMAC, n.side)))
}

// features switches offloads of all hosts' devices, or of all the router's.
func (t *testbed) features(hosts, routers []string) error {
	var failures []error
	for _, n := range t.networks() {
		if len(hosts) > 0 {
			failures = append(failures, run(n.host, "ethtool", append([]string{"-K", "out"}, hosts...)...))
		}
		if len(routers) > 0 {
			failures = append(failures, run(t.router, "ethtool", append([]string{"-K", n.side}, routers...)...))
		}
	}
	return errors.Join(failures...)
}

// Close removes the namespaces and their contents.
func (t *testbed) Close() error {
	var failures []error
	for _, n := range t.networks() {
		failures = append(failures, space.Delete(n.host))
	}
	return errors.Join(append(failures, space.Delete(t.router))...)
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

// settle waits until no packet is on its way, or patience ends.
func settle(ctx context.Context, profile *router.Router) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := profile.Settle(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func run(namespace, name string, arguments ...string) error {
	_, err := space.Run(namespace, exec.Command(name, arguments...))
	return err
}
