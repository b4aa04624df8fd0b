package lab_test

import (
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/lab/emulator"
)

// divided are two routers with agents and emulated links behind both; a and b have agents, h has
// none.
const divided = `
hosts: {h: {}, a: {}, r1: {forward: true}, r2: {forward: true}, b: {}, noc: {}}
links:
  - {ends: [h, r1]}
  - {ends: [a, r1]}
  - ends: [r1, r2]
    emulate: {seed: 5, delay: 5ms, queue: 4000, from: {r1: {loss: 1%}}}
  - ends: [r2, b]
    emulate: {seed: 6, delay: 3ms, queue: 4000}
  - {ends: [r1, noc]}
  - {ends: [r2, noc]}
service: {server: noc, agents: [a, r1, r2, b], agent_options: [--policy, POLICY]}
`

// segmentsOf compares the segments of a session with the delays of both links, whose truth is that
// of the same packets. On a busy machine they wait before and behind the emulator, all but a few.
func (b *serviceBed) segmentsOf(session string, first, second emulator.Tally) {
	b.t.Helper()
	b.agrees(first, "session = '"+session+"' AND agent = 'b'", "packets", "expected", "lost", "duplicated", "reordered")
	b.reaches(int64(first.Delivered), "SELECT sum(count) FROM segments WHERE session = '%s' AND agent = 'b'", session)
	b.reaches(int64(first.Delivered), "SELECT sum(delay_count) FROM flows WHERE session = '%s'", session)
	b.reaches(0, "SELECT count(*) FROM segments WHERE session = '%s' AND waypoint <> 'r2'", session)
	for column, truth := range map[string]emulator.Tally{"first": first, "second": second} {
		least := b.number("SELECT min(%s_min_ns) FROM segments WHERE session = '%s'", column, session)
		mean := b.number("SELECT sum(count * %s_mean_ns) // sum(count) FROM segments WHERE session = '%s'", column, session)
		b.t.Logf("%s: %s segment: minimum %d ns, truth %d ns; mean %d ns, truth %.0f ns", session, column, least, truth.Delay.Min, mean, truth.Delay.Mean)
		if off := least - truth.Delay.Min; off < 0 || off > 100e3 {
			b.t.Errorf("%s: minimum delay of the %s segment %d ns, truth %d ns", session, column, least, truth.Delay.Min)
		}
		// How long packets wait for a processor in the hosts is unknown; if it were more than it is, the other segment would be too short.
		if float64(mean) < truth.Delay.Mean {
			b.t.Errorf("%s: mean delay of the %s segment %d ns, truth %.0f ns", session, column, mean, truth.Delay.Mean)
		}
	}
	// Means are rounded down to ns, of both segments.
	whole := b.number("SELECT sum(delay_count * delay_mean_ns) // sum(delay_count) FROM flows WHERE session = '%s'", session)
	parts := b.number("SELECT sum(count * (first_mean_ns + second_mean_ns)) // sum(count) FROM segments WHERE session = '%s'", session)
	if apart := whole - parts; apart < -2 || apart > 2 {
		b.t.Errorf("%s: the segments take %d ns together, the path %d ns", session, parts, whole)
	}
}

// TestSegments: one router marks the packets of a host without Pillion, the next one writes the
// time of arrival into the marks, and the destination has the delay of each segment. A host
// that marks its own packets to the same destination is the outer source of segments that
// overlap: its figures are whole, and the router says which packets it leaves alone.
func TestSegments(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, strings.Replace(divided, "POLICY", consent(t), 1))
	documented := strings.NewReplacer("--from a ", "--from r1 ", "--waypoint r ", "--waypoint r2 ").Replace(ofClass(t, "docs/agent.md", "ask-waypoint"))
	b.pillion(strings.Fields(documented)[1:]...)
	const each = 2000 // packets of each family and session
	to := []netip.Addr{netip.MustParseAddr("10.77.4.2"), netip.MustParseAddr("fd77:0:0:4::2")}
	b.running("divided", "--from", "r1", "--to", "b", "--waypoint", "r2", "--trace=-1s", "--stamp-every", "1",
		"--transit", "r1=10.77.1.0/24,10.77.2.0/24,fd77:0:0:1::/64,fd77:0:0:2::/64")
	sum := func(link, from string) emulator.Tally { return b.quiet(link, from).Marked }
	for _, address := range to {
		b.open("h", "b", netip.AddrPortFrom(address, 9000)).send(each, 5000)
	}
	b.settled("r1-r2", "r1", uint64(2*each))
	first, second := sum("r1-r2", "r1"), sum("r2-b", "r2")
	if first.Offered < uint64(2*each) || first.Lost == 0 || second.Offered != first.Delivered {
		t.Errorf("of %d packets %d were marked, %d lost, and %d went on", 2*each, first.Offered, first.Lost, second.Offered)
	}
	b.segmentsOf("divided", first, second)
	if n := b.task("divided", "r2", "destination")["device_amended"]; n != first.Delivered {
		t.Errorf("the waypoint wrote into %d marks of %d", n, first.Delivered)
	}
	b.overlapping(to, each, first, second)
}

// overlapping has a host mark packets that the ingress edge would mark, too.
func (b *serviceBed) overlapping(to []netip.Addr, each int, first, second emulator.Tally) {
	b.t.Helper()
	b.running("whole", "--from", "a", "--to", "b", "--waypoint", "r2", "--trace=-1s", "--stamp-every", "1")
	for _, address := range to {
		b.open("a", "b", netip.AddrPortFrom(address, 9001)).send(each, 5000)
	}
	b.settled("r1-r2", "r1", first.Offered+uint64(2*each))
	b.segmentsOf("whole", less(b.quiet("r1-r2", "r1").Marked, first), less(b.quiet("r2-b", "r2").Marked, second))
	b.limited("divided", "carried the mark of another source")
}

// less is what came since; the minimum delay is that of all.
func less(now, before emulator.Tally) emulator.Tally {
	n := float64(now.Delay.Count - before.Delay.Count)
	return emulator.Tally{
		Offered: now.Offered - before.Offered, Delivered: now.Delivered - before.Delivered, Lost: now.Lost - before.Lost,
		Duplicated: now.Duplicated - before.Duplicated, Reordered: now.Reordered - before.Reordered,
		Delay: emulator.Times{Min: now.Delay.Min, Mean: (now.Delay.Mean*float64(now.Delay.Count) - before.Delay.Mean*float64(before.Delay.Count)) / n},
	}
}
