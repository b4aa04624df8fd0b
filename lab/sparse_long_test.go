//go:build long

package lab_test

import (
	"net/netip"
	"testing"
)

// TestLongSparseSession: a session whose marks are sparse reports packets as far as marks
// enclose them, and which of them it could not check.
func TestLongSparseSession(t *testing.T) {
	t.Parallel() // it mostly waits
	const packets = 5000
	b := service(t, perfect)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s", "--sparse-marks")
	stream := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000))
	stream.send(packets, 5000)
	stream.enclose(func(sent uint64) bool {
		expected, err := b.tryNumber("SELECT sum(expected) FROM flows WHERE dport = 9000")
		return err == nil && expected == int64(sent)
	})
	stream.receive(stream.next)
	b.reaches(int64(stream.next), "SELECT sum(packets) FROM flows WHERE dport = 9000")
	b.reaches(int64(stream.next), "SELECT sum(unchecked) FROM flows WHERE dport = 9000")
	b.reaches(0, "SELECT sum(lost) FROM flows WHERE dport = 9000")
	b.atLeast(packets/32, "SELECT sum(delay_count) FROM flows WHERE dport = 9000")
	eventually(t, "the source to count the packets", func() bool {
		counters := b.task("s", "a", "source")
		return counters["counted"] > packets/2 && counters["marked"]+counters["counted"] >= stream.next
	})
}

// TestLongSparseMarksTruth: the other rows.
func TestLongSparseMarksTruth(t *testing.T) {
	t.Parallel() // it mostly waits
	sparseMarksTruth(t, true)
}
