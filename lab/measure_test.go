package lab_test

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"pillion.dev/lab/emulator"
	"pillion.dev/wire"
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

// truthRow is an encoding whose figures must be the emulator's.
type truthRow struct {
	to       netip.Addr
	encoding wire.Encoding
	every    uint64 // stamped: one packet in so many
	hidden   bool   // the emulator does not see the ports: each flow has an address of its own
	long     bool   // only in the long test
	short    bool   // another row has a million packets in this encoding
}

var truthRows = map[string]truthRow{
	"ipv6 native":                       {to: secondIPv6, encoding: wire.Native, every: 16},
	"ipv6 native, every packet stamped": {to: secondIPv6, encoding: wire.Native, every: 1, short: true},
	"ipv4 udp":                          {to: secondIPv4, encoding: wire.UDP, every: 16},
	"ipv4 shim":                         {to: secondIPv4, encoding: wire.Shim, every: 16, hidden: true, long: true},
	"ipv4 ipip":                         {to: secondIPv4, encoding: wire.IPIP, every: 16, hidden: true, long: true},
	"ipv6 udp-option":                   {to: secondIPv6, encoding: wire.UDPOption, every: 16},
	"ipv6 ioam-e2e":                     {to: secondIPv6, encoding: wire.IOAME2E, every: 16},
	"ipv6 ioam-trace":                   {to: secondIPv6, encoding: wire.IOAMTrace, every: 1},
	"ipv6 pdm":                          {to: secondIPv6, encoding: wire.PDM, every: 16},
	"ipv6 altmark":                      {to: secondIPv6, encoding: wire.AltMark},
	"ipv4 udp-option":                   {to: secondIPv4, encoding: wire.UDPOption, every: 16, short: true},
}

// The emulator is the oracle: the probes' counts must equal its counts of marked packets
// exactly.
func TestProbesCountTheTruth(t *testing.T) {
	for name, row := range truthRows {
		if !row.long {
			t.Run(name, func(t *testing.T) { row.check(t, 25_600) })
		}
	}
}

// check sends so many packets and returns by how much the median delay differs from the truth, if the encoding has one.
func (row truthRow) check(t *testing.T, packets int) (off time.Duration) {
	t.Helper()
	const flows = 10
	if row.encoding.Carries()&wire.CarriesBlock != 0 {
		return blocksCountTheTruth(t, row.to, flows, packets/flows)
	}
	b := up(t, faulty)
	to := ports(row.to, flows)
	if row.hidden {
		to = b.addresses(flows)
	}
	truth, marked, read := b.countTruth(to, packets/flows,
		"--encoding", row.encoding.String(), "--stamp-every", strconv.FormatUint(row.every, 10))
	compareWithTruth(t, truth, marked, read)
	if row.encoding.Carries().Allows(wire.Delay) {
		compareSamples(t, read, row.every)
		off = time.Duration(read.Delay.P50 - truth.Marked.Delay.P50)
	}
	t.Logf("bar: %d packets marked; lost %d, duplicated %d, reordered %d, truth %d, %d, %d; "+
		"delay p50 %d ns, truth %d ns, error %d ns; late p99 %d ns",
		marked.Marked, read.Lost, read.Duplicated, read.Reordered,
		truth.Marked.Lost, truth.Marked.Duplicated, truth.Marked.Reordered,
		read.Delay.P50, truth.Marked.Delay.P50, off, truth.Late.P99)
	return off
}

// ports are so many ports of an address.
func ports(address netip.Addr, count int) (to []netip.AddrPort) {
	for i := range count {
		to = append(to, netip.AddrPortFrom(address, uint16(9000+i)))
	}
	return to
}

// addresses gives b so many more addresses.
func (b *bed) addresses(count int) (to []netip.AddrPort) {
	b.t.Helper()
	for i := range count {
		address := netip.AddrFrom4([4]byte{10, 77, 1, byte(10 + i)})
		b.exec("b", "ip", "address", "add", address.String()+"/24", "dev", "a")
		to = append(to, netip.AddrPortFrom(address, 9000))
	}
	return to
}

// countTruth sends no more at once than the link can queue, however late the emulator
// reads, so that it sees every frame.
func (b *bed) countTruth(to []netip.AddrPort, count int, options ...string) (emulator.Direction, sourceSummary, destinationSummary) {
	b.t.Helper()
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b", options...)
	var faults []emulator.Change
	if slices.Contains(options, "pdm") { // numbers that begin at random do not show what was lost before the first
		loss, duplicates, reordered := emulator.Fraction(0.01), emulator.Fraction(0.005), emulator.Fraction(0.01)
		faults = append(faults, emulator.Change{Loss: &loss, Duplicate: &duplicates, Reorder: &reordered})
	}
	truth := b.settled("a-b", "a", b.sprayTo(to, spraying{count: count, rate: 100_000, burst: 800}, faults...))
	marked, read := both(s, d)
	if truth.Unread != 0 {
		b.t.Errorf("the emulator did not read %d frames", truth.Unread)
	}
	return truth, marked, read
}

// spray sends count packets in each of a number of flows, several flows at a time.
func (b *bed) spray(to netip.Addr, flows, count, rate int) uint64 {
	b.t.Helper()
	return b.sprayTo(ports(to, flows), spraying{count: count, rate: rate, burst: 256})
}

// spraying is how many packets each flow gets, at what rate, and how many at once: all flows together less than the
// queue of 10,000, and what may count as one flow less than the 1,024 packets by which one may be overtaken.
type spraying struct{ count, rate, burst int }

// sprayTo sends a flow to each destination. Faults, if any, begin when the first packet of each flow has arrived, which
// is one more.
func (b *bed) sprayTo(to []netip.AddrPort, how spraying, faults ...emulator.Change) uint64 {
	b.t.Helper()
	var streams []*stream
	for _, one := range to {
		streams = append(streams, b.open("a", "b", one))
	}
	offered := uint64(0)
	change := func(c emulator.Change) {
		if err := b.Change(b.t.Context(), "a-b", "a", c); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, fault := range faults {
		change(emulator.Calm())
		for _, s := range streams {
			s.send(1, how.rate)
		}
		offered += uint64(len(to))
		b.settled("a-b", "a", offered)
		change(fault)
	}
	for n := 0; n < how.count; n += how.burst {
		part := min(how.burst, how.count-n)
		for _, s := range streams {
			s.send(part, how.rate)
		}
		offered += uint64(part * len(to))
		b.settled("a-b", "a", offered)
	}
	// The last packets of each flow must arrive: only a later packet reveals a loss.
	change(emulator.Calm())
	for _, s := range streams {
		s.send(1, how.rate)
	}
	return offered + uint64(len(to))
}

// compareSamples checks how many packets had a time: all, or one in so many on average and
// never fewer than half as many, except those that were lost.
func compareSamples(t *testing.T, read destinationSummary, every uint64) {
	t.Helper()
	arrived := read.Expected - read.Lost
	if every == 1 && read.Delay.Count != arrived {
		t.Errorf("%d delays of %d packets", read.Delay.Count, arrived)
	}
	if least := arrived / (2 * every) / 2; every > 1 && (read.Delay.Count < least || read.Delay.Count > arrived) {
		t.Errorf("%d delays of %d packets, want at least %d", read.Delay.Count, arrived, least)
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
