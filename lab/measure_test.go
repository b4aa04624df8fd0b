package lab_test

import (
	"net/netip"
	"strconv"
	"testing"

	"pillion.dev/lab/emulator"
)

// faulty is a link with all impairments for packets from a.
const faulty = `hosts: {a: {}, b: {}}
links:
  - ends: [a, b]
    emulate:
      seed: 11
      delay: 5ms
      from:
        a: {jitter: 100us, loss: 1%, duplicate: 0.5%, reorder: 1%, reorder_gap: 2ms}
`

// The emulator is the oracle: the probes' counts must equal its counts of marked packets
// exactly.
func TestProbesCountTheTruth(t *testing.T) { probesCountTheTruth(t, 2560) }

func probesCountTheTruth(t *testing.T, count int) {
	tests := map[string]struct {
		to       netip.Addr
		bursts   int
		encoding string
		every    uint64 // stamped: one packet in so many
	}{
		"ipv6 native":                       {secondIPv6, 10, "native", 16},
		"ipv6 native, every packet stamped": {secondIPv6, 10, "native", 1},
		"ipv4 udp":                          {secondIPv4, 10, "udp", 16},
		"ipv6 udp-option":                   {secondIPv6, 10, "udp-option", 16},
		"ipv4 udp-option":                   {secondIPv4, 10, "udp-option", 16},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			truth, marked, read := countTruth(t, test.to, test.bursts, count,
				"--encoding", test.encoding, "--stamp-every", strconv.FormatUint(test.every, 10))
			compareWithTruth(t, truth, marked, read)
			compareSamples(t, read, test.every)
			t.Logf("bar: %d packets marked; lost %d, duplicated %d, reordered %d, truth %d, %d, %d; "+
				"delay p50 %d ns, truth %d ns, error %d ns; late p99 %d ns",
				marked.Marked, read.Lost, read.Duplicated, read.Reordered,
				truth.Marked.Lost, truth.Marked.Duplicated, truth.Marked.Reordered,
				read.Delay.P50, truth.Marked.Delay.P50, read.Delay.P50-truth.Marked.Delay.P50, truth.Late.P99)
		})
	}
}

// countTruth sends no more at once than the link can queue, however late the emulator
// reads, so that it sees every frame.
func countTruth(t *testing.T, to netip.Addr, flows, count int, options ...string) (emulator.Direction, sourceSummary, destinationSummary) {
	t.Helper()
	b := up(t, faulty)
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b", options...)
	truth := b.settled("a-b", "a", b.spray(to, flows, count, 60000))
	marked, read := both(s, d)
	if truth.Unread != 0 {
		t.Errorf("the emulator did not read %d frames", truth.Unread)
	}
	return truth, marked, read
}

// spray sends count packets in each of a number of flows, several flows at a time.
func (b *bed) spray(to netip.Addr, flows, count, rate int) uint64 {
	b.t.Helper()
	streams := make([]*stream, flows)
	for i := range streams {
		streams[i] = b.open("a", "b", netip.AddrPortFrom(to, uint16(9000+i)))
	}
	const burst = 256 // of each of ten flows: less than a queue of 10,000
	offered := uint64(0)
	for n := 0; n < count; n += burst {
		for _, s := range streams {
			s.send(burst, rate)
		}
		offered += burst * uint64(flows)
		b.settled("a-b", "a", offered)
	}
	// The last packets of each flow must arrive: only a later packet reveals a loss.
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

// compareSamples checks how many packets had a time: all, or one in so many on average and
// never fewer than half as many, except those that were lost.
func compareSamples(t *testing.T, read destinationSummary, every uint64) {
	t.Helper()
	arrived := read.Expected - read.Lost
	if every == 1 && read.Delay.Count != arrived {
		t.Errorf("%d delays of %d packets", read.Delay.Count, arrived)
	}
	if least := arrived / (2 * every) / 2; every > 1 && (read.Delay.Count < least || read.Delay.Count == arrived) {
		t.Errorf("%d delays of %d packets, want at least %d and not all", read.Delay.Count, arrived, least)
	}
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
