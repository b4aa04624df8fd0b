package destination

import (
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

// Report is what the source of a flow has sent up to a moment that is long enough past: what
// has not arrived by now counts as lost.
type Report struct {
	Key flow.Key
	// Start is the number with which the flow began at its source; the packets that the
	// report adds to the one before have the numbers from First to Next, modulo 2^31.
	Start, First, Next uint32
	// Whole: marks have been read here since before First was sent. So a flow that is not
	// known was lost.
	Whole bool
}

const (
	// claimMax is how many packets of a flow can be missing at its end; further numbers
	// belong to another series (WINDOW_JUMP of window.h).
	claimMax = 1 << 24
	// nearMax is how far the numbers of a flow may have moved on since a report.
	nearMax = 1 << 26
	// stride is WIRE_FLOW_STRIDE of wire.h: a series begins with a multiple of it.
	stride = 0x10000
	// excessMax is WINDOW_EXCESS of window.h.
	excessMax = 1024
	// rememberFor is how long what was accounted of a flow is known after the flow has left
	// the table: reports of it may still come.
	rememberFor = 5 * time.Minute
)

// Settle takes reports of sources, which the next Read accounts for. Only flows identified by all five fields can
// be reported.
func (d *Destination) Settle(reports []Report) {
	d.reports = append(d.reports, reports...)
}

// Unsettled returns the packets in reports that were neither received nor counted as lost, because marks of no
// known flow have arrived, which may be of these packets.
func (d *Destination) Unsettled() uint64 { return d.unsettled }

// settle accounts for the reports of sources about flows that have been read.
func (d *Destination) settle(r *reading) error {
	reports := d.reports
	d.reports = nil
	now := time.Now()
	doubtful, err := d.doubtful(now)
	if err != nil {
		return err
	}
	for _, report := range reports {
		d.settleFlow(r, &report, now, doubtful)
	}
	for key, s := range d.absent {
		if now.Sub(s.left) > rememberFor {
			delete(d.absent, key)
		}
	}
	return nil
}

func (d *Destination) settleFlow(r *reading, report *Report, now time.Time, doubtful bool) {
	key := flow.RawOf(report.Key)
	s := d.flows[key]
	if s == nil {
		s = d.absent[key]
	}
	if s != nil && s.narrow {
		report = report.near(s.series.next)
	}
	if s == nil && (!report.Whole || doubtful || len(d.absent) >= d.absentMax()) || report.strips(s) {
		d.unsettled += uint64((report.Next - report.First) & wire.SequenceMask)
		return
	}
	if s == nil {
		s = &state{left: now}
		d.absent[key] = s
	}
	if c := s.report(report); c != nil {
		r.enter(report.Key, c)
	}
}

// near moves the numbers to those that are nearest to a number and have the same lower 16 bits: marks with
// short numbers do not say how often these wrapped.
func (r *Report) near(number uint32) *Report {
	by := number + uint32(int16(r.Next-number)) - r.Next
	moved := *r
	moved.Start, moved.First, moved.Next = (r.Start+by)&wire.SequenceMask, (r.First+by)&wire.SequenceMask, (r.Next+by)&wire.SequenceMask
	return &moved
}

// synsMax is how many packets a TCP connection sends of which nothing arrives: it does not get
// beyond its SYN.
const synsMax = 2

// strips reports whether the marks of a TCP connection, of which none has arrived, must have
// been removed on the way: TCP options need no validated path.
func (r *Report) strips(s *state) bool {
	known := s != nil && s.series.begun && s.series.holds(r)
	return r.Key.Protocol == unix.IPPROTO_TCP && !known && (r.Next-r.Start)&wire.SequenceMask > synsMax
}

func (d *Destination) absentMax() int { return 2 * d.settings.Flows }

// leave keeps what reports of a flow that left the table may still be about.
func (d *Destination) leave(key flow.Raw, s *state) {
	now := time.Now()
	rest := s.rest(now)
	switch {
	case rest == nil:
	case len(d.absent) >= d.absentMax():
		d.forgot = now // it could be taken for lost
	default:
		d.absent[key] = rest
	}
}

// doubtful reports whether marks have lately arrived that are in no flow, so that a flow that
// is not known need not be lost.
func (d *Destination) doubtful(now time.Time) (bool, error) {
	var cpus []destinationTally
	if err := d.objects.Tallies.Lookup(uint32(0), &cpus); err != nil {
		return false, err
	}
	strays := uint64(0)
	for _, cpu := range cpus {
		strays += cpu.FlowsFull + cpu.Verdicts[destinationVerdictVERDICT_PEER] + cpu.Verdicts[destinationVerdictVERDICT_FORGED]
	}
	if strays != d.strays {
		d.strays, d.strayed = strays, now
	}
	recent := func(t time.Time, span time.Duration) bool { return !t.IsZero() && now.Sub(t) < span }
	return recent(d.strayed, strayedFor) || recent(d.forgot, rememberFor), nil
}

// strayedFor is how long a mark of no known flow makes reports doubtful: a report about its packet may come that
// much later.
const strayedFor = time.Minute

// apart is a - b as a distance on the ring of 31-bit numbers.
func apart(a, b uint32) int64 { return int64(int32((a-b)<<1) >> 1) }

// series is one series of numbers of a flow, which its source began at random, as far as it is known from
// the window, from reports, or from both.
type series struct {
	begun    bool // in the window
	reported bool
	start    uint32 // with which it began at the source; if reported
	// whole: from is the first number that is to be accounted for, and sent how many there
	// are up to next; otherwise the window knows where its account begins.
	whole  bool
	from   uint32
	sent   int64
	before int64  // expected packets of the window when the series began
	base   uint32 // where the account of the window begins
	next   uint32 // behind the highest number that the window has seen
	to     uint32 // behind the highest number that was reported
}

// ahead is how many packets have been sent that the window has not seen.
func (r *series) ahead() int64 {
	if n := apart(r.to, r.next); r.begun && r.reported && n > 0 && n <= claimMax {
		return n
	}
	return 0
}

// claimed returns the packets to be accounted for beyond those that the window counts, of a
// series in which it is not.
func (r *series) claimed() int64 {
	if r.begun {
		return r.ahead()
	}
	return r.expected(0)
}

// expected returns the packets to be accounted for, if the window counts so many, of this series
// and those before.
func (r *series) expected(counted int64) int64 {
	switch {
	case !r.begun && r.whole:
		return counted + max(0, apart(r.to, r.from))
	case r.whole:
		return r.before + r.sent + r.ahead()
	}
	return counted + r.ahead()
}

// fits reports whether the window may be in this series, of which it has seen nothing yet.
func (r *series) fits(w *destinationWindow) bool {
	base := baseOf(w)
	if begins(base) {
		return base == r.base || r.reported && base == r.start || within(base, r.to, stride)
	}
	return within(base, r.from, claimMax)
}

// begins reports whether a series can begin with the number.
func begins(number uint32) bool { return number%stride == 0 }

func within(a, b uint32, most int64) bool {
	n := apart(a, b)
	return n >= -most && n <= most
}

// baseOf is where the account of a window begins.
func baseOf(w *destinationWindow) uint32 {
	return (w.Next - uint32(w.Expected-w.Began)) & wire.SequenceMask
}

// read takes over what the window says.
func (r *series) read(w *destinationWindow) {
	if r.begun {
		if r.whole {
			r.sent += int64((w.Next - r.next) & wire.SequenceMask)
		}
		r.next = w.Next
		return
	}
	r.begun, r.base, r.next = true, baseOf(w), w.Next
	if w.Restarts > 0 {
		r.before = int64(w.Began)
	}
	if r.whole {
		r.sent = apart(w.Next, r.from)
	}
}

// holds reports whether the report is about this series.
func (r *series) holds(report *Report) bool {
	if r.reported {
		return report.Start == r.start
	}
	if !r.begun && !r.whole {
		return false
	}
	return report.Start == r.base || !begins(r.base) && within(report.Next, r.next, nearMax)
}

// report takes over what the source says.
func (r *series) report(report *Report) {
	if r.reported {
		if n := apart(report.Next, r.to); n > 0 && n <= claimMax {
			r.to = report.Next
		}
		return
	}
	r.reported, r.start, r.to = true, report.Start, report.Next
	if head := apart(r.base, report.First); r.begun && !r.whole && report.Whole && head >= 0 && head <= claimMax {
		r.whole, r.from, r.sent = true, report.First, apart(r.next, report.First)
	}
}

// reportedSeries is one of which only a report is known.
func reportedSeries(report *Report) series {
	return series{reported: true, whole: true, start: report.Start, from: report.First, next: report.First, to: report.Next}
}

// report returns what a report adds to the rows; nil: nothing.
func (s *state) report(report *Report) *change {
	if known := s.find(report); known != nil {
		known.report(report)
	} else if !report.Whole {
		return nil
	} else if s.unseen > 0 { // probably one of those, which is over
		s.unseen--
		s.end(series{reported: true, start: report.Start})
		return nil
	} else if s.series.begun { // the window is in one before it
		s.end(s.lost)
		s.lost = reportedSeries(report)
	} else {
		s.end(s.series)
		s.series = reportedSeries(report)
	}
	if s.pending.packets > 0 && s.series.ahead() > 0 {
		s.raise(uint64(s.series.ahead()))
	}
	c := s.difference()
	if c.Counts == (Counts{}) {
		return nil
	}
	c.announced = c.Lost
	return c
}

// find returns the series that a report is about; nil: it is a new one.
func (s *state) find(report *Report) *series {
	for i := range s.earlier {
		if s.earlier[i].reported && s.earlier[i].holds(report) {
			return &s.earlier[i]
		}
	}
	for _, known := range []*series{&s.series, &s.lost} {
		if known.holds(report) {
			return known
		}
	}
	for i := range s.earlier {
		if s.earlier[i].holds(report) {
			return &s.earlier[i]
		}
	}
	return nil
}

// earlierMax is how many series of a flow are known that it is no longer in: their last
// reports may still come, and come twice where two sessions measure the flow.
const earlierMax = 4

// end moves a series to the earlier ones.
func (s *state) end(r series) {
	if r == (series{}) {
		return
	}
	s.earlier = append(s.earlier, r)
	if len(s.earlier) > earlierMax {
		s.past += s.earlier[0].claimed()
		s.earlier = s.earlier[1:]
	}
}

// expected returns the packets to be accounted for.
func (s *state) expected() int64 {
	n := s.past + s.series.expected(s.counted) + s.lost.claimed()
	for i := range s.earlier {
		n += s.earlier[i].claimed()
	}
	return n
}

// pending are packets of a sparse flow since its last mark, which the window does not count yet.
type pending struct{ packets, bytes uint64 }

// raise counts the pending packets: so many have been sent since the last mark.
func (s *state) raise(sent uint64) {
	n := s.pending
	s.floor = totals{Counts: Counts{
		Packets: s.read.Packets + n.packets, Bytes: s.read.Bytes + n.bytes, Unchecked: s.read.Unchecked + n.packets,
	}, unique: s.read.unique + min(n.packets, sent+excessMax)}
}

// follow takes over what the window says of its series.
func (s *state) follow(w *destinationWindow) {
	switch {
	case w.Begun == 0:
		return
	case w.Restarts != s.restarts:
		s.unseen += w.Restarts - s.restarts
		if s.series.begun {
			s.unseen--
		}
		s.leaveSeries(int64(w.Began))
		s.series, s.lost, s.restarts = s.lost, series{}, w.Restarts
	}
	if !s.series.begun && s.series.whole && !s.series.fits(w) {
		s.end(s.series)
		s.series = series{}
	}
	s.series.read(w)
	s.narrow = w.Narrow != 0
	s.counted = int64(w.Expected)
	s.pending = pending{}
	if w.Sparse != 0 {
		s.pending = pending{w.Pending, w.PendingBytes}
	}
}

// leaveSeries ends the series of the window, which counted so many expected packets up to then.
func (s *state) leaveSeries(counted int64) {
	old := s.series
	if old.begun {
		since := max(0, counted-s.counted) // the last reading
		old.next = (old.next + uint32(since)) & wire.SequenceMask
		if old.whole {
			old.sent += since
			s.past += old.before + old.sent - counted
		}
	}
	s.end(old)
}

// rest is what remains of a flow that leaves the table; nil: nothing.
func (s *state) rest(now time.Time) *state {
	r := &s.series
	if !r.begun && !r.reported {
		return nil
	}
	end := r.next
	if !r.begun || r.ahead() > 0 {
		end = r.to
	}
	return &state{left: now, narrow: s.narrow, series: series{
		reported: r.reported, start: r.start, base: r.base, whole: true, from: end, next: end, to: end,
	}}
}
