//go:build long

package lab_test

import (
	"net/netip"
	"testing"
	"time"
)

// TestLongAltMarkBound: in a session, the server brings the counts of both ends together. Of all blocks, lost
// less duplicated packets are exactly those of the emulator; each block has one delay, unless that
// packet was lost.
func TestLongAltMarkBound(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	const port, flows, packets, period = 9100, 4, 400, 500 * time.Millisecond
	b.listens("b", port)
	b.running("altmark", "--from", "a", "--to", "b", "--trace=-1s", "--interval=500ms", "--encoding", "altmark", "--block=500ms", "--filter", "dport=9100")
	blocksEnd(t, period) // from the next block on both ends count all packets
	blocksEnd(t, period)
	for range flows {
		out := b.openBound("a", netip.AddrPortFrom(secondIPv6, port))
		out.send(packets, 400) // a second
	}
	truth := b.toPort(port, true)
	if truth.Offered != flows*packets || truth.Lost == 0 || truth.Duplicated == 0 {
		t.Errorf("truth %+v of %d packets", truth, flows*packets)
	}
	const from = "FROM flows WHERE dport = 9100"
	b.reaches(int64(truth.Offered), "SELECT sum(expected) %s", from)
	b.reaches(int64(truth.Offered-truth.Lost+truth.Duplicated), "SELECT sum(unchecked) %s", from)
	for what, want := range map[string]int64{
		"sum(expected)": int64(truth.Offered), "sum(packets)": int64(truth.Offered - truth.Lost + truth.Duplicated),
		"sum(lost)::BIGINT - sum(duplicated)::BIGINT": int64(truth.Lost) - int64(truth.Duplicated), "sum(reordered)": 0, "sum(ipdv_count)": 0,
	} {
		if got, err := b.tryNumber("SELECT %s %s", what, from); err != nil || got != want {
			t.Errorf("%s: %d, truth says %d, %v", what, got, want, err)
		}
	}
	blocks, err := b.tryNumber("SELECT count(*) FROM sent_flows WHERE dport = 9100 AND block IS NOT NULL AND interval_ns = %d", period)
	if err != nil {
		t.Fatal(err)
	}
	delays, err := b.tryNumber("SELECT sum(delay_count) %s", from)
	if err != nil || delays == 0 || delays > blocks || blocks < flows {
		t.Errorf("%d delays of %d blocks, %v", delays, blocks, err)
	}
	mean, err := b.tryNumber("SELECT (sum(delay_mean_ns * delay_count) / sum(delay_count))::BIGINT %s", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("bar: %d offered, %d lost, %d duplicated; lost less duplicated agrees; %d delays of %d blocks, mean %d ns, truth p50 %d ns",
		truth.Offered, truth.Lost, truth.Duplicated, delays, blocks, mean, b.quiet("a-b", "a").Marked.Delay.P50)
	b.stopped("altmark")
}
