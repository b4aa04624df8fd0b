package tester

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/send/frame"
)

// rig is a router between two hosts, each in its own namespace: the device under test.
type rig struct {
	testing.TB
	near, router, far string
	out               bytes.Buffer
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, near: namespace.New(t), router: namespace.New(t), far: namespace.New(t)}
	for _, command := range []string{
		"ip -n NEAR link add near0 type veth peer name in0 netns ROUTER", "ip -n ROUTER link add out0 type veth peer name far0 netns FAR",
		"ip -n NEAR link set near0 up", "ip -n ROUTER link set in0 up", "ip -n ROUTER link set out0 up", "ip -n FAR link set far0 up",
		"ip -n NEAR addr add 198.18.0.2/24 dev near0", "ip -n ROUTER addr add 198.18.0.1/24 dev in0",
		"ip -n ROUTER addr add 198.19.0.1/24 dev out0", "ip -n FAR addr add 198.19.0.2/24 dev far0",
		"ip -n NEAR route add default via 198.18.0.1", "ip netns exec ROUTER sysctl -qw net.ipv4.ip_forward=1",
	} {
		r.command(command)
	}
	return r
}

func (r *rig) command(text string) {
	r.Helper()
	words := strings.Fields(strings.NewReplacer("NEAR", r.near, "ROUTER", r.router, "FAR", r.far).Replace(text))
	if said, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		r.Fatalf("%s: %v: %s", text, err, said)
	}
}

// limit makes the router a bottleneck with a queue of so many bytes.
func (r *rig) limit(bitsPerSecond, queue int) {
	r.Helper()
	r.command(fmt.Sprintf("ip netns exec ROUTER tc qdisc replace dev out0 root tbf rate %d burst 6000 limit %d", bitsPerSecond, queue))
}

func (r *rig) open(name string) *os.File {
	r.Helper()
	file, err := os.Open(netns.Path(name))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { file.Close() })
	return file
}

// options of a benchmark from near to far.
func (r *rig) options() Options {
	r.Helper()
	return Options{
		Device: "near0", Namespace: r.open(r.near), Receive: "far0", ReceiveNamespace: r.open(r.far),
		Header: &frame.Header{Destination: netip.MustParseAddr("198.19.0.2"), SourcePort: 50000, DestinationPort: 9},
		Sizes:  []int{1514}, MaxRate: 40e6, Duration: time.Second, Resolution: 0.005, Shortfall: 0.01,
		Late: 100 * time.Microsecond, Wait: 500 * time.Millisecond, Step: 0.1, Repeat: 1, JSON: true,
	}
}

// tester is ready for trials.
func (r *rig) tester(o Options) *Tester {
	r.Helper()
	t, err := New(r.Context(), o, &r.out)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { t.Close() })
	return t
}
