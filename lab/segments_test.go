package lab_test

import (
	"net/netip"

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
