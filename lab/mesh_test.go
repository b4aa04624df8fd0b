package lab_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pillion.dev/lab/emulator"
)

// star is four hosts around a router, each on an emulated link.
const star = `
hosts: {a: {}, b: {}, c: {}, d: {}, r: {forward: true}, noc: {}}
links:
  - {ends: [a, r], emulate: {seed: 1}}
  - {ends: [b, r], emulate: {seed: 2}}
  - {ends: [c, r], emulate: {seed: 3}}
  - {ends: [d, r], emulate: {seed: 4}}
  - {ends: [r, noc]}
service: {server: noc, agents: [a, b, c]}
`

var starHosts = map[string]netip.Addr{
	"a": netip.MustParseAddr("10.77.1.1"), "b": netip.MustParseAddr("10.77.2.1"),
	"c": netip.MustParseAddr("10.77.3.1"), "d": netip.MustParseAddr("10.77.4.1"),
}

// pairs returns the pairs of a session, such as a>b.
func (b *serviceBed) pairs(session string) []string {
	b.t.Helper()
	var shown struct {
		Session struct {
			Pairs []struct{ Source, Destination string }
		}
	}
	if err := json.Unmarshal([]byte(b.pillion("session", "show", session, "-o", "json")), &shown); err != nil {
		b.t.Fatal(err)
	}
	var pairs []string
	for _, p := range shown.Session.Pairs {
		pairs = append(pairs, p.Source+">"+p.Destination)
	}
	slices.Sort(pairs)
	return pairs
}

// paired waits until a session runs with exactly these pairs.
func (b *serviceBed) paired(session string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	var got []string
	b.t.Cleanup(func() {
		if !slices.Equal(got, want) {
			b.t.Logf("pairs of %s were %v", session, got)
		}
	})
	eventually(b.t, fmt.Sprintf("pairs of %s to be %v", session, want), func() bool {
		got = b.pairs(session)
		return slices.Equal(got, want) && b.sessionState(session) == "running"
	})
}

// mesh returns all pairs of hosts.
func mesh(hosts ...string) []string {
	var pairs []string
	for _, from := range hosts {
		for _, to := range hosts {
			if from != to {
				pairs = append(pairs, from+">"+to)
			}
		}
	}
	return pairs
}

const talk = 96 // packets per pair

// talks sends from every host to every other, and checks that all packets arrived.
func (b *serviceBed) talks(port uint16, pairs []string) {
	b.t.Helper()
	for i, pair := range pairs {
		from, to, _ := strings.Cut(pair, ">")
		flow := b.open(from, to, netip.AddrPortFrom(starHosts[to], port+uint16(i)))
		flow.send(talk, 5000)
		flow.receive(talk)
	}
}

// arrived returns how many marked packets the link delivered to a host.
func (b *serviceBed) arrived(host string) emulator.Tally {
	b.t.Helper()
	return b.settled(host+"-r", "r", 0).Marked
}

// TestSessionMesh: a session between all agents includes those that join and drops those
// that leave, and one by labels follows the labels, on the same interfaces.
func TestSessionMesh(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, star)
	b.running("all", "--from", "*", "--to", "*", "--trace=-1s", "--interval", "200ms", "--lease", "2s")
	b.paired("all", mesh("a", "b", "c")...)
	fourth := b.join("d")
	b.paired("all", mesh("a", "b", "c", "d")...)

	for host, site := range map[string]string{"a": "north", "b": "north", "c": "south", "d": "south"} {
		b.pillion("agents", "label", host, "site="+site)
	}
	b.running("sites", "--from", "site=north", "--to", "site=south", "--both", "--trace=-1s", "--by", "host", "--lease", "2s")
	across := []string{"a>c", "a>d", "b>c", "b>d", "c>a", "c>b", "d>a", "d>b"}
	b.paired("sites", across...)
	if said := b.pillion("agents", "--label", "site=south", "-o", "csv"); !containsAll(said, "\nc,", "\nd,") || strings.Contains(said, "\na,") {
		t.Errorf("agents of a label are %s", said)
	}

	b.talks(9000, mesh("a", "b", "c", "d"))
	for host := range starHosts {
		marked := b.arrived(host)
		if marked.Offered != 3*talk {
			t.Errorf("%d packets to %s were marked, want %d", marked.Offered, host, 3*talk)
		}
		b.reaches(int64(marked.Delivered), "SELECT sum(packets) FROM flows WHERE session = 'all' AND agent = '%s'", host)
		b.reaches(2*talk, "SELECT sum(packets) FROM flows WHERE session = 'sites' AND agent = '%s'", host)
	}
	b.reaches(12, "SELECT count(DISTINCT (source, agent)) FROM flows WHERE session = 'all' AND packets > 0")
	b.reaches(8, "SELECT count(DISTINCT (source, agent)) FROM flows WHERE session = 'sites' AND packets > 0")

	b.pillion("agents", "label", "b", "site-")
	b.paired("sites", "a>c", "a>d", "c>a", "d>a")

	fourth.kill()
	b.becomes("all", "degraded")
	b.pillion("agents", "revoke", "d")
	b.paired("all", mesh("a", "b", "c")...)
	b.paired("sites", "a>c", "c>a")
	eventually(t, "d to be forgotten", func() bool {
		_, err := b.tryPillion("agents", "delete", "d")
		return err == nil
	})
	before := b.arrived("d").Offered
	b.talks(9100, append(mesh("a", "b", "c"), "a>d"))
	if after := b.arrived("d").Offered; after != before {
		t.Errorf("%d packets to the host that left were marked", after-before)
	}
	b.reaches(int64(b.arrived("a").Delivered), "SELECT sum(packets) FROM flows WHERE session = 'all' AND agent = 'a'")
}
