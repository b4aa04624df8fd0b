package lab_test

import (
	"net/netip"
	"testing"
)

// TestRouterMarksItsOwnPackets: a source on a router marks packets that the router itself
// sends, not forwarded ones, which no destination would accept.
func TestRouterMarksItsOwnPackets(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, routerTakesPart)
	b.running("s", "--from", "r", "--to", "a", "--trace=-1s", "--interval", "200ms")
	through := b.open("b", "a", netip.AddrPortFrom(starHosts["a"], 9000))
	through.send(talk, 5000)
	through.receive(talk)
	if marked := b.arrived("a"); marked.Offered != 0 {
		t.Errorf("%d packets that the router forwarded were marked", marked.Offered)
	}
	own := b.open("r", "a", netip.AddrPortFrom(starHosts["a"], 9001))
	own.send(talk, 5000)
	own.receive(talk)
	if marked := b.arrived("a"); marked.Offered != talk {
		t.Errorf("%d packets of the router were marked, want %d", marked.Offered, talk)
	}
	b.reaches(talk, "SELECT sum(packets) FROM flows WHERE agent = 'a'")
}

const routerTakesPart = `
hosts: {a: {}, b: {}, r: {forward: true}, noc: {}}
links:
  - {ends: [a, r], emulate: {seed: 1}}
  - {ends: [b, r], emulate: {seed: 2}}
  - {ends: [r, noc]}
service: {server: noc, agents: [a, r]}
`
