package lab_test

import (
	"net/netip"
	"testing"

	"pillion.dev/lab/emulator"
)

// faulty is a link that does everything at once to what a sends.
const faulty = `hosts: {a: {}, b: {}}
links:
  - ends: [a, b]
    emulate:
      seed: 11
      delay: 5ms
      from:
        a: {jitter: 100us, loss: 1%, duplicate: 0.5%, reorder: 1%, reorder_gap: 2ms}
`

// The emulator is the oracle: what the probes count must be what it did to the
// marked packets, to the last one.
func TestProbesCountTheTruth(t *testing.T) {
	tests := map[string]struct {
		to     netip.Addr
		bursts int
	}{
		"ipv6 native": {secondIPv6, 10},
		"ipv4 udp":    {secondIPv4, 10},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			count := 51200
			if testing.Short() {
				count = 2560
			}
			truth, marked, read := countTruth(t, test.to, test.bursts, count)
			compareWithTruth(t, truth, marked, read)
			t.Logf("bar: %d packets marked; lost %d, duplicated %d, reordered %d, truth %d, %d, %d; "+
				"delay p50 %d ns, truth %d ns, error %d ns; late p99 %d ns",
				marked.Marked, read.Lost, read.Duplicated, read.Reordered,
				truth.Marked.Lost, truth.Marked.Duplicated, truth.Marked.Reordered,
				read.Delay.P50, truth.Marked.Delay.P50, read.Delay.P50-truth.Marked.Delay.P50, truth.Late.P99)
		})
	}
}

// countTruth tries again, more slowly, where the machine was so busy that the
// emulator did not see every frame: then there is no truth to compare with.
func countTruth(t *testing.T, to netip.Addr, flows, count int) (emulator.Direction, sourceSummary, destinationSummary) {
	t.Helper()
	var unread uint64
	for _, rate := range []int{60000, 30000, 15000} {
		b := up(t, faulty)
		d := b.probe("b", "destination", "a")
		s := b.probe("a", "source", "b")
		truth := b.settled("a-b", "a", b.spray(to, flows, count, rate))
		marked, read := both(s, d)
		if unread = truth.Unread; unread == 0 {
			return truth, marked, read
		}
		t.Logf("at %d packets a second the emulator did not read %d frames", rate, unread)
	}
	t.Fatalf("the emulator did not read %d frames at the lowest rate", unread)
	panic("unreachable")
}

// spray sends count packets in each of so many flows, several flows at a time.
func (b *bed) spray(to netip.Addr, flows, count, rate int) uint64 {
	b.t.Helper()
	streams := make([]*stream, flows)
	for i := range streams {
		streams[i] = b.open("a", "b", netip.AddrPortFrom(to, uint16(9000+i)))
	}
	const turn = 512
	for n := 0; n < count; n += turn {
		for _, s := range streams {
			s.send(turn, rate)
		}
	}
	// The last packets of each flow must come: only a later one shows a loss.
	offered := uint64(flows * count)
	b.settled("a-b", "a", offered)
	calm := emulator.Calm()
	change := emulator.Change{Loss: calm.Loss, Duplicate: calm.Duplicate, Reorder: calm.Reorder}
	if err := b.Change(b.t.Context(), "a-b", "a", change); err != nil {
		b.t.Fatal(err)
	}
	for _, s := range streams {
		s.send(1, rate)
	}
	return offered + uint64(flows)
}

func compareWithTruth(t *testing.T, truth emulator.Direction, marked sourceSummary, read destinationSummary) {
	t.Helper()
	counts := map[string]struct{ got, want uint64 }{
		"marked":     {marked.Marked, truth.Marked.Offered},
		"expected":   {read.Expected, truth.Marked.Offered},
		"packets":    {read.Packets, truth.Marked.Delivered + truth.Marked.Duplicated},
		"lost":       {read.Lost, truth.Marked.Lost},
		"duplicated": {read.Duplicated, truth.Marked.Duplicated},
		"reordered":  {read.Reordered, truth.Marked.Reordered},
		"late":       {read.Late, 0},
		"restarts":   {read.Restarts, 0},
		"rejected":   {read.Rejected, 0},
		"unrestored": {read.Unrestored, 0},
		"contended":  {read.Contended, 0},
	}
	for name, c := range counts {
		if c.got != c.want {
			t.Errorf("%s: got %d, truth says %d", name, c.got, c.want)
		}
	}
	if truth.Marked.Offered == 0 {
		t.Error("nothing was marked")
	}
}
