package lab_test

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// edges are two routers with agents, an emulated link between them, and hosts without Pillion
// behind both.
const edges = `
hosts: {h1: {}, r1: {forward: true}, r2: {forward: true}, h2: {}, noc: {}}
links:
  - {ends: [h1, r1]}
  - ends: [r1, r2]
    emulate: {seed: 5, delay: 5ms, queue: 4000, from: {r1: {loss: 1%, duplicate: 0.5%, reorder: 1%}}}
  - {ends: [r2, h2]}
  - {ends: [r1, noc]}
  - {ends: [r2, noc]}
service: {server: noc, agents: [r1, r2], agent_options: [--policy, POLICY]}
`

var (
	behindIPv4 = netip.MustParseAddr("10.77.3.2")
	behindIPv6 = netip.MustParseAddr("fd77:0:0:3::2")
)

// consent writes a policy that lets hosts behind the edges be measured, and returns its path.
func consent(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("transit: [10.77.0.0/16, 'fd77::/16']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// edgesRun starts a session between the edges.
func (b *serviceBed) edgesRun(name string, more ...string) {
	b.t.Helper()
	b.running(name, append([]string{"--from", "r1", "--to", "r2", "--trace=-1s",
		"--transit", "r1=10.77.1.0/24,fd77:0:0:1::/64", "--transit", "r2=10.77.3.0/24,fd77:0:0:3::/64"}, more...)...)
}

// TestEdgeToEdge: two edges measure the packets of hosts without Pillion. The figures equal the
// truth of the link between them, and no byte of the hosts' packets changes.
func TestEdgeToEdge(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, strings.Replace(edges, "POLICY", consent(t), 1))
	b.edgesRun("edges", "--stamp-every", "1")
	var offered uint64
	for _, to := range []netip.Addr{behindIPv4, behindIPv6} {
		s := b.open("h1", "h2", netip.AddrPortFrom(to, 9000))
		s.send(2000, 5000)
		offered += 2000
	}
	const own = 100 // packets of the edge itself, from an address in the prefix and from another one
	for _, from := range []string{"10.77.1.2:0", "10.77.2.1:0"} {
		b.do("r1", func() error {
			out, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(behindIPv4, 9000)))
			for range own {
				if err == nil {
					_, err = out.Write([]byte("own"))
				}
			}
			return err
		})
	}
	truth := b.settled("r1-r2", "r1", offered+2*own).Marked
	if truth.Offered != offered {
		t.Errorf("of %d packets of hosts behind the edge, and %d of its own, %d were marked", offered, 2*own, truth.Offered)
	}
	b.agrees(truth, "session = 'edges' AND source = 'r1' AND src <> ''")
	delay := b.number("SELECT median(delay_p50_ns) FROM flows WHERE session = 'edges'")
	if off := delay - truth.Delay.P50; off < -1e6 || off > 1e6 {
		t.Errorf("median delay %d ns, truth %d ns", delay, truth.Delay.P50)
	}
}
