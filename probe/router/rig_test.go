package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	vishnetns "github.com/vishvananda/netns"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/internal/test/namespace"
)

// patience is how long a test waits for what has to come.
const patience = hang.Limit

// settling is how long packets may wait in the queues of these tests.
const settling = 2 * time.Second

// rig is a router between a left and a right host, each in a namespace of its own.
type rig struct {
	t                   testing.TB
	left, router, right string
	opened              uint64 // timeslices of process 1 when the profile was opened
}

// build makes the three, with addresses of both families, and lets the router forward.
func build(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, left: namespace.New(t), router: namespace.New(t), right: namespace.New(t)}
	for _, host := range []string{r.left, r.router, r.right} {
		r.configure(host, "ipv6/conf/default/accept_dad", "0")
	}
	r.join(r.left, "out", "in0", 1)
	r.join(r.right, "out", "in1", 2)
	r.configure(r.router, "ipv4/ip_forward", "1")
	r.configure(r.router, "ipv6/conf/all/forwarding", "1")
	r.warm()
	return r
}

// configure sets a sysctl of a namespace, named from net/ on.
func (r *rig) configure(namespace, name, value string) {
	r.t.Helper()
	err := netns.Do(namespace, func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
	if err != nil {
		r.t.Fatal(err)
	}
}

// join connects a host to the router by a pair of veth; the number is that of the network.
func (r *rig) join(host, name, side string, network int) {
	r.t.Helper()
	address := func(device string, number int) []string {
		return []string{
			fmt.Sprintf("address add 10.9.%d.%d/24 dev %s", network, number, device),
			fmt.Sprintf("address add fd09:%d::%d/64 dev %s nodad", network, number, device),
			"link set " + device + " up",
		}
	}
	r.ip(host, "link add "+name+" type veth peer name "+side+" netns "+r.router)
	r.ip(r.router, address(side, 1)...)
	r.ip(host, append(address(name, 2),
		fmt.Sprintf("route add 0.0.0.0/0 via 10.9.%d.1", network), fmt.Sprintf("route add ::/0 via fd09:%d::1", network))...)
}

// ip runs commands of ip in a namespace, all in one process.
func (r *rig) ip(namespace string, lines ...string) {
	r.t.Helper()
	if err := netns.IP(namespace, lines...); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a command in a namespace.
func (r *rig) run(namespace string, command ...string) string {
	r.t.Helper()
	output, err := netns.Run(namespace, exec.Command(command[0], command[1:]...))
	if err != nil {
		r.t.Fatal(err)
	}
	return output
}

// profile opens the router's profile and closes it at the end of the test.
func (r *rig) profile(o Options) *Router {
	r.t.Helper()
	profile := r.openProfile(o)
	r.t.Cleanup(func() {
		if err := profile.Close(); err != nil {
			r.t.Error(err)
		}
	})
	return profile
}

// openProfile opens the router's profile, which the caller closes.
func (r *rig) openProfile(o Options) *Router {
	r.t.Helper()
	handle, err := vishnetns.GetFromPath(netns.Path(r.router))
	if err != nil {
		r.t.Fatal(err)
	}
	defer handle.Close()
	o.Netns = int(handle)
	r.opened = timeslices(r.t)
	profile, err := Open(o)
	if err != nil {
		var verifier *ebpf.VerifierError
		if errors.As(err, &verifier) {
			r.t.Logf("%+v", verifier)
		}
		r.t.Fatal(err)
	}
	return profile
}

// listen opens a UDP socket on the right host.
func (r *rig) listen(address string) *net.UDPConn {
	r.t.Helper()
	return r.socket(r.right, func() (*net.UDPConn, error) {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
		if err == nil {
			err = c.SetReadBuffer(8 << 20)
		}
		return c, err
	})
}

// dial opens a UDP socket on the left host.
func (r *rig) dial(address string) *net.UDPConn {
	r.t.Helper()
	return r.socket(r.left, func() (*net.UDPConn, error) {
		return net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
	})
}

func (r *rig) socket(namespace string, open func() (*net.UDPConn, error)) *net.UDPConn {
	r.t.Helper()
	var c *net.UDPConn
	err := netns.Do(namespace, func() (err error) {
		c, err = open()
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// settled is the account once nothing is in flight any more.
func settled(t testing.TB, profile *Router) Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settling)
	defer cancel()
	if err := profile.Settle(ctx); err != nil {
		t.Log(err)
		describe(t, profile)
	}
	s, err := profile.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("account %+v", s.Account)
	return s
}

// pair finds what was forwarded from one interface to the other.
func pair(t testing.TB, s Snapshot, in, out string) Pair {
	t.Helper()
	for _, p := range s.Pairs {
		if p.In.Name == in && p.Out.Name == out {
			return p
		}
	}
	t.Fatalf("no pair of %s and %s", in, out)
	return Pair{}
}

// describe logs the packets that are remembered.
func describe(t testing.TB, profile *Router) {
	t.Helper()
	packets := new([tableSize]routerPacket)
	if err := profile.collection.Variables[routerVarPackets].Get(packets); err != nil {
		t.Error(err)
	}
	if _, err := profile.inFlight(); err != nil {
		t.Error(err)
	}
	for i, key := range profile.keys {
		if key != 0 {
			t.Logf("%x: %+v", key, packets[i])
		}
	}
}

// warm lets all hosts find their neighbours.
func (r *rig) warm() {
	r.t.Helper()
	for _, address := range []string{"10.9.2.2:8", "[fd09:2::2]:8"} {
		server := r.listen(address)
		r.reach(server, address)
		server.Close()
	}
}

// third joins a third host, whose network is 3.
func (r *rig) third() string {
	r.t.Helper()
	host := namespace.New(r.t)
	r.join(host, "out", "in2", 3)
	server := r.socket(host, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.9.3.2:8")))
	})
	defer server.Close()
	left := r.left
	defer func() { r.left = left }()
	r.reach(server, "10.9.3.2:8")
	server = r.listen("10.9.2.2:8")
	defer server.Close()
	r.left = host
	r.reach(server, "10.9.2.2:8")
	return host
}

// reach sends until a packet arrives, so that all neighbours are known.
func (r *rig) reach(server *net.UDPConn, address string) {
	r.t.Helper()
	client := r.dial(address)
	defer client.Close()
	buffer := make([]byte, 1)
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		if _, err := client.Write(buffer); err != nil {
			continue
		}
		server.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := server.Read(buffer); err == nil {
			return
		}
	}
	r.t.Fatalf("%s is not reached", address)
}
