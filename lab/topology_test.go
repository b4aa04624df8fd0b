package lab_test

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// detour has two paths from r1 to r3; the first in the file is in use.
const detour = `
hosts: {a: {}, r1: {forward: true}, r2: {forward: true}, r4: {forward: true}, r3: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [a, r1]}
  - {ends: [r1, r2]}
  - {ends: [r2, r3]}
  - {ends: [r3, b]}
  - {ends: [r1, r4]}
  - {ends: [r4, r3]}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
  - {ends: [r1, noc]}
service: {server: noc, agents: [a, b, r1]}
`

// talkative lets routers answer every probe.
func (b *bed) talkative(hosts ...string) {
	b.t.Helper()
	for _, host := range hosts {
		b.do(host, func() error {
			for path, value := range map[string]string{"net/ipv4/icmp_ratelimit": "0", "net/ipv6/icmp/ratelimit": "0"} {
				if err := os.WriteFile(filepath.Join("/proc/sys", path), []byte(value), 0o644); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// silence prevents a router from sending its own packets; it still forwards.
func (b *bed) silence(host string) {
	b.t.Helper()
	b.do(host, func() error {
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			rule := netlink.NewRule()
			rule.Family, rule.IifName, rule.Type, rule.Priority = family, "lo", unix.FR_ACT_BLACKHOLE, 1
			if err := netlink.RuleAdd(rule); err != nil {
				return err
			}
		}
		return nil
	})
}

// path is a path in the topology.
type path struct {
	Source, Destination, Address string
	Reached                      bool
	Nodes                        []string
}

func (b *serviceBed) topology(arguments ...string) (paths []path, kinds map[string]string) {
	b.t.Helper()
	var graph struct {
		Paths []path
		Nodes []struct{ ID, Kind string }
	}
	text := b.pillion(append([]string{"topology", "-o", "json"}, arguments...)...)
	if err := json.Unmarshal([]byte(text), &graph); err != nil {
		b.t.Fatal(err)
	}
	kinds = map[string]string{}
	for _, node := range graph.Nodes {
		kinds[node.ID] = node.Kind
	}
	return graph.Paths, kinds
}

// way returns the path from a host to an IPv4 address of another, or nil.
func (b *serviceBed) way(source, destination, address string, arguments ...string) (nodes, kinds []string) {
	paths, kindOf := b.topology(arguments...)
	for _, p := range paths {
		if p.Source == source && p.Destination == destination && p.Address == address && p.Reached {
			for _, node := range p.Nodes {
				kinds = append(kinds, kindOf[node])
			}
			return p.Nodes, kinds
		}
	}
	return nil, nil
}

// TestTopology: the paths of a session show every hop, also one that does not
// answer; another route is an event. A router with an agent, which knows its addresses,
// is one node in both directions, although it replies from another address in each.
func TestTopology(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, detour)
	b.talkative("r1", "r2", "r3", "r4", "b")
	b.silence("r3")
	const far = "10.77.4.2" // of b, behind r3
	b.running("s", "--from", "a", "--to", "b", "--trace", "5s")
	var nodes, kinds []string
	eventually(t, "the path to be known", func() bool {
		nodes, kinds = b.way("a", "b", far, "--session", "s")
		return nodes != nil
	})
	want := []string{"agent", "agent", "router", "unknown", "agent"}
	if !slices.Equal(kinds, want) || nodes[1] != "agent:r1" || !strings.Contains(nodes[2], "10.77.2.2") {
		t.Errorf("path is %v of %v, want %v by r1 and r2", nodes, kinds, want)
	}
	if said := b.pillion("topology", "trace", "b", "a", "--address", "10.77.1.1"); !containsAll(said, "10.77.2.1") {
		t.Errorf("r1 does not reply from the other side:\n%s", said)
	}
	if nodes, _ := b.way("b", "a", "10.77.1.1"); len(nodes) != 5 || nodes[3] != "agent:r1" {
		t.Errorf("the way back is %v, want r1 as the same node", nodes)
	}
	if said := b.pillion("topology", "--tree"); !containsAll(said, "r1", "10.77.2.2", "*", "b") {
		t.Errorf("tree is\n%s", said)
	}
	b.do("r1", func() error {
		via := &netlink.Route{Dst: &net.IPNet{IP: net.ParseIP(far).To4(), Mask: net.CIDRMask(32, 32)}, Gw: net.ParseIP("10.77.5.2")}
		return netlink.RouteReplace(via)
	})
	// A change has to be seen twice; a trace on demand does not wait for the interval.
	eventually(t, "the path to change", func() bool {
		b.pillion("topology", "trace", "a", "b", "--address", far)
		n, err := b.tryNumber("SELECT count(*) FROM events WHERE kind = 'path-changed'")
		return err == nil && n > 0
	})
	nodes, _ = b.way("a", "b", far)
	if !strings.Contains(strings.Join(nodes, " "), "10.77.5.2") {
		t.Errorf("after the change the path is %v", nodes)
	}
	b.reaches(1, "SELECT count(*) FROM events WHERE kind = 'path-changed' AND message LIKE '%%10.77.2.2%%10.77.5.2%%'")
}
