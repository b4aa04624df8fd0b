package lab_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
