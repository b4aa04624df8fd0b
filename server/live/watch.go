package live

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/skew"
)

const (
	// windowsMost are kept for further rows, each for windowTime after the last one.
	windowsMost = 128
	windowTime  = 30 * time.Second
	// closedMost is the number of dropped windows whose starts are kept: rows that belong
	// to one are too late, since a window of these rows alone would replace the complete one.
	closedMost   = 4096
	sessionsMost = 8
	// leadFactor is how many times as many packets another session has to see before
	// its windows are shown instead.
	leadFactor = 1.2
	rateTime   = 10 * time.Second
)

// Watch adds up the rows of one pair of hosts in windows. It is not safe for concurrent
// use.
type Watch struct {
	selection archive.Selection
	asked     time.Duration // step; 0: the interval of the rows
	step      time.Duration
	sessions  map[string]*watched
	current   string // session whose windows are shown
	estimates []skew.Estimate
}

// watched holds the windows of one session.
type watched struct {
	name    string
	windows map[int64]*watchedWindow // by start, ns
	closed  map[int64]bool
	order   []int64 // of closed
	// arrived are packets and lengths of the latest rows, for the election.
	arrived []arrival
	seen    time.Time
	// cut is the end of the first row added: older ones of the same windows are in the
	// archive, until filled.
	cut    int64
	begun  bool
	filled bool
}

type arrival struct {
	at      time.Time
	packets float64
	end     int64
	step    time.Duration
}

type watchedWindow struct {
	archive.Window
	updated time.Time
	changed bool
	fresh   bool // never returned by Changed
}

// NewWatch returns a watch; with a step of 0 it uses the interval of the rows, at least a second.
func NewWatch(selection archive.Selection, step time.Duration) *Watch {
	return &Watch{selection: selection, asked: step, step: cmp.Or(step, time.Second), sessions: map[string]*watched{}}
}

// Step returns the length of windows.
func (w *Watch) Step() time.Duration { return w.step }

// Pair returns the names of the hosts.
func (w *Watch) Pair() (source, destination string) {
	return w.selection.Source, w.selection.Destination
}

// Correct lets rows that follow be added to the corrected delays of their windows, too, by these estimates of the clock offset.
func (w *Watch) Correct(estimates []skew.Estimate) { w.estimates = estimates }

// merge adds a sum of rows around a time to a window.
func (w *Watch) merge(to *watchedWindow, sum *flows.Sum, at time.Time) {
	to.Merge(sum)
	if best, ok := skew.Best(w.estimates, at); ok && sum.Delay.Count > 0 {
		offset, _ := best.Offset(at)
		shifted := sum.Delay.Shift(int64(math.Round(offset)))
		to.Corrected.Merge(&shifted)
	}
}

// Add adds the selected rows of a batch. An error means that the batch cannot be read
// further.
func (w *Watch) Add(batch archive.Batch, now time.Time) error {
	if batch.Agent != w.selection.Destination {
		return nil
	}
	for row, err := range flows.Rows(batch.Agent, batch.Record) {
		if err != nil {
			return err
		}
		if w.selection.Has(row) {
			w.addRow(row, now)
		}
	}
	w.elect(now)
	return nil
}

func (w *Watch) addRow(row *flows.Row, now time.Time) {
	one := w.sessions[row.Session]
	if one == nil {
		if len(w.sessions) >= sessionsMost && !w.evict(now) {
			return
		}
		name := strings.Clone(row.Session)
		one = &watched{name: name, windows: map[int64]*watchedWindow{}, closed: map[int64]bool{}}
		w.sessions[name] = one
	}
	end := row.End.UnixNano()
	one.arrive(now, float64(row.Packets), end, row.Interval)
	if w.asked == 0 && (w.current == one.name || len(w.sessions) == 1) {
		w.setStep(one.step())
	}
	if !one.begun || !one.filled && end < one.cut {
		one.begun, one.cut = true, end
	}
	start := floor(row.Middle().UnixNano(), int64(w.step))
	if one.closed[start] {
		return
	}
	at := one.windows[start]
	if at == nil {
		one.makeRoom(now)
		at = &watchedWindow{Window: archive.Window{Start: time.Unix(0, start).UTC()}, fresh: true}
		one.windows[start] = at
	}
	w.merge(at, &row.Sum, row.Middle())
	at.updated, at.changed = now, true
}

// evict makes room for another session if one has ended.
func (w *Watch) evict(now time.Time) bool {
	for name, one := range w.sessions {
		if name != w.current && one.silent(now) {
			delete(w.sessions, name)
			return true
		}
	}
	return false
}

// floor rounds down to a multiple of step.
func floor(n, step int64) int64 {
	rest := n % step
	if rest < 0 {
		rest += step
	}
	return n - rest
}

// arrivalsMost bounds the arrivals that are kept.
const arrivalsMost = 4096

// arrive records a row; rows of one reading have the same end.
func (o *watched) arrive(now time.Time, packets float64, end int64, interval time.Duration) {
	o.seen = now
	if last := len(o.arrived) - 1; last >= 0 && o.arrived[last].end == end {
		o.arrived[last].packets += packets
	} else {
		o.arrived = append(o.arrived, arrival{now, packets, end, max(archive.IntervalStep(interval), time.Second)})
	}
	old := 0
	for old < len(o.arrived)-1 && (now.Sub(o.arrived[old].at) > max(rateTime, 3*o.arrived[old].step) || len(o.arrived)-old > arrivalsMost) {
		old++
	}
	o.arrived = slices.Delete(o.arrived, 0, old)
}

// step returns the median interval of the latest rows: a single one can be too long.
func (o *watched) step() time.Duration {
	var latest []time.Duration
	for _, a := range o.arrived[max(0, len(o.arrived)-5):] {
		latest = append(latest, a.step)
	}
	slices.Sort(latest)
	return latest[len(latest)/2]
}

// rate returns the packets per second in the latest rows.
func (o *watched) rate() float64 {
	packets, seconds := 0.0, 0.0
	for _, a := range o.arrived {
		packets += a.packets
		seconds += a.step.Seconds()
	}
	return packets / max(seconds, 1)
}

// silent reports whether rows of a session are overdue.
func (o *watched) silent(now time.Time) bool {
	return len(o.arrived) == 0 || now.Sub(o.seen) > 3*o.arrived[len(o.arrived)-1].step+2*time.Second
}

// elect determines which session's windows are shown.
func (w *Watch) elect(now time.Time) {
	elected := w.sessions[flows.Elect(func(yield func(string, float64) bool) {
		for name, one := range w.sessions {
			if !one.silent(now) && !yield(name, one.rate()) {
				return
			}
		}
	}, w.current, leadFactor)]
	if elected == nil || elected.name == w.current || elected.silent(now) {
		return
	}
	w.current = elected.name
	if w.asked == 0 {
		w.setStep(elected.step())
	}
	for _, at := range elected.windows {
		at.changed, at.fresh = true, true
	}
}

// setStep replaces the windows by windows of another length.
func (w *Watch) setStep(step time.Duration) {
	if step == w.step {
		return
	}
	w.step = step
	for _, one := range w.sessions {
		clear(one.windows)
		clear(one.closed)
		one.order, one.begun, one.filled = nil, false, false
	}
}

// Lack returns the question for the rows that the first windows lack, if any.
func (w *Watch) Lack() (question archive.Windows, lacks bool) {
	current := w.sessions[w.current]
	if current == nil || current.filled || !current.begun {
		return question, false
	}
	current.filled = true
	first, last, any := int64(0), int64(0), false
	for start := range current.windows {
		if start < current.cut { // another cannot have rows before it
			first, last, any = min(start, cmp.Or(first, start)), max(start, last), true
		}
	}
	question = archive.Windows{
		Selection: w.selection, Step: w.step, Before: time.Unix(0, current.cut),
		From: time.Unix(0, first), To: time.Unix(0, last).Add(w.step),
	}
	question.Session = current.name
	return question, any && current.name != "" && first > 0
}

// Fill adds the archive's answer to Lack.
func (w *Watch) Fill(answer archive.WindowsAnswer) {
	current := w.sessions[w.current]
	for i := range answer.Windows {
		if at := current.windows[answer.Windows[i].Start.UnixNano()]; at != nil && answer.Step == w.step {
			w.merge(at, &answer.Windows[i].Sum, at.Start.Add(w.step/2))
		}
	}
}

// makeRoom drops windows that no longer grow.
func (o *watched) makeRoom(now time.Time) {
	var oldest int64
	for start, at := range o.windows {
		if now.Sub(at.updated) > windowTime {
			o.close(start)
		} else if known := o.windows[oldest]; known == nil || at.updated.Before(known.updated) ||
			at.updated.Equal(known.updated) && start < oldest {
			oldest = start
		}
	}
	if len(o.windows) >= windowsMost {
		o.close(oldest)
	}
}

func (o *watched) close(start int64) {
	delete(o.windows, start)
	if !o.closed[start] {
		o.closed[start] = true
		o.order = append(o.order, start)
	}
	if len(o.order) > closedMost {
		delete(o.closed, o.order[0])
		o.order = o.order[1:]
	}
}

// Fresh reports whether Changed will return a window for the first time.
func (w *Watch) Fresh() bool {
	current := w.sessions[w.current]
	if current == nil {
		return false
	}
	for _, at := range current.windows {
		if at.fresh {
			return true
		}
	}
	return false
}

// Changed returns the windows that have changed since its last call, by time.
func (w *Watch) Changed() []archive.Window {
	current := w.sessions[w.current]
	if current == nil {
		return nil
	}
	var changed []archive.Window
	for _, at := range current.windows {
		if at.changed {
			at.changed, at.fresh = false, false
			changed = append(changed, at.Window)
		}
	}
	slices.SortFunc(changed, func(a, b archive.Window) int { return a.Start.Compare(b.Start) })
	return changed
}
