//go:build long

package lab_test

import (
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/lab/emulator"
)

// TestLongFlowMismatch: marks of a source that numbers flows by other fields than the session of their destination
// are an event and a limit of the session, but no loss, and no byte of their packets changes.
func TestLongFlowMismatch(t *testing.T) {
	b := service(t, strings.Replace(twoHosts, ", from: {a: {loss: 1%, duplicate: 0.5%, reorder: 1%}}", "", 1))
	b.running("tuples", "--from", "a", "--to", "b", "--authentication", "off", "--encoding", "native", "--trace=-1s")
	const each = 1000
	s := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000))
	s.send(each, 5000)
	b.reaches(each, "SELECT sum(packets) FROM flows WHERE session = 'tuples'")
	b.kill("agent-a")
	b.probe("a", "source", "b", "--flow", "src,dst", "--encoding", "native")
	s.send(each, 5000)
	b.carry("a", "b", secondIPv6, 1<<20).finish()
	s.receive(s.next)
	b.atLeast(1, "SELECT count(*) FROM events WHERE kind = 'flow-mismatch' AND about = 'a' AND level = 'warning'")
	b.limited("tuples", "numbers flows by other fields than this session's")
	b.agrees(emulator.Tally{Offered: each, Delivered: each}, "session = 'tuples'", "packets", "expected", "lost", "duplicated")
}
