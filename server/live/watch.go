package live

import (
	"cmp"
	"slices"
	"time"

	"pillion.dev/archive"
)

const (
	// windowsMost are kept to take more rows, each for windowTime after the last.
	windowsMost = 128
	windowTime  = 30 * time.Second
	// closedMost windows that are forgotten are remembered: rows for one come too
	// late, since it would replace the whole one at the reader's.
	closedMost   = 4096
	sessionsMost = 8
	// A session takes the place of another that sees fewer packets by this factor.
	leadFactor = 1.2
	rateTime   = 10 * time.Second
)

// Watch adds up the rows of one pair of hosts in windows. It is for one goroutine.
type Watch struct {
	selection  archive.Selection
	histograms bool
	asked      time.Duration // step; 0: that of the rows
	step       time.Duration
	sessions   map[string]*watched
	current    string
}

// watched is what one session has of the pair.
type watched struct {
	name    string
	windows map[int64]*watchedWindow // by start, ns
	closed  map[int64]bool
	order   []int64 // of closed
	// arrived are packets and lengths of the latest rows, to tell who sees most.
	arrived []arrival
	seen    time.Time
	// cut is when the first row ended of those that were taken: older ones that
	// belong to the same windows are in the archive, until filled.
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
	*sum
	updated time.Time
	changed bool
	fresh   bool // never sent
}

// NewWatch makes a watch; a step of 0 is that of the rows, at least a second.
func NewWatch(selection archive.Selection, histograms bool, step time.Duration) *Watch {
	return &Watch{selection: selection, histograms: histograms, asked: step, step: cmp.Or(step, time.Second), sessions: map[string]*watched{}}
}

// Step is the length of windows.
func (w *Watch) Step() time.Duration { return w.step }

// Add takes the rows of a batch that are asked for. An error is one of the batch,
// the rest of which is left out.
func (w *Watch) Add(batch archive.Batch, now time.Time) (err error) {
	if batch.Agent != w.selection.Destination {
		return nil
	}
	defer survive(&err)
	r := rowsOf(batch)
	for i := range r.n {
		if w.wants(r, i) {
			w.addRow(r, i, now)
		}
	}
	w.elect(now)
	return nil
}

func (w *Watch) wants(r *rows, i int) bool {
	s := &w.selection
	return r.source(i) == s.Source && (s.Session == "" || r.session(i) == s.Session) &&
		(s.Src == "" || r.src(i) == s.Src) && (s.Dst == "" || r.dst(i) == s.Dst) && (s.Proto == "" || r.proto(i) == s.Proto) &&
		(s.Sport == 0 || r.sport(i) == s.Sport) && (s.Dport == 0 || r.dport(i) == s.Dport)
}

func (w *Watch) addRow(r *rows, i int, now time.Time) {
	end, interval, ok := r.span(i)
	if !ok {
		return
	}
	one := w.sessions[r.session(i)]
	if one == nil {
		one = w.sessions[own(r.session(i))] // it was not valid as it came
	}
	if one == nil {
		if len(w.sessions) >= sessionsMost && !w.forget(now) {
			return
		}
		name := own(r.session(i))
		one = &watched{name: name, windows: map[int64]*watchedWindow{}, closed: map[int64]bool{}}
		w.sessions[name] = one
	}
	packets, _ := r.packets(i)
	one.arrive(now, float64(packets), end.UnixNano(), interval)
	if w.asked == 0 && (w.current == one.name || len(w.sessions) == 1) {
		w.setStep(one.step())
	}
	if !one.begun || !one.filled && end.UnixNano() < one.cut {
		one.begun, one.cut = true, end.UnixNano()
	}
	start := floor(end.UnixNano()-int64(interval)/2, int64(w.step))
	if one.closed[start] {
		return
	}
	at := one.windows[start]
	if at == nil {
		one.makeRoom(now)
		at = &watchedWindow{sum: newSum(time.Unix(0, start).UTC()), fresh: true}
		one.windows[start] = at
	}
	at.add(r, i)
	at.updated, at.changed = now, true
}

// forget makes room for another session, where one has ended.
func (w *Watch) forget(now time.Time) bool {
	for name, one := range w.sessions {
		if name != w.current && one.silent(now) {
			delete(w.sessions, name)
			return true
		}
	}
	return false
}

// floor is the multiple of step at or below.
func floor(n, step int64) int64 {
	rest := n % step
	if rest < 0 {
		rest += step
	}
	return n - rest
}

// arrivalsMost bounds what is kept of the latest rows.
const arrivalsMost = 4096

// arrive takes note of a row; those of one reading have one end.
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

// step is the middle one of the latest rows: a single one can come out long.
func (o *watched) step() time.Duration {
	var latest []time.Duration
	for _, a := range o.arrived[max(0, len(o.arrived)-5):] {
		latest = append(latest, a.step)
	}
	slices.Sort(latest)
	return latest[len(latest)/2]
}

// rate is packets by the second, of the latest rows.
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

// elect says whose windows are shown: one session's, since each counts the same
// packets. It changes when that ends, or another sees more for long.
func (w *Watch) elect(now time.Time) {
	current := w.sessions[w.current]
	var best *watched
	for _, one := range w.sessions {
		if one.silent(now) {
			continue
		}
		if best == nil || one.rate() > best.rate() || one.rate() == best.rate() && one.name < best.name {
			best = one
		}
	}
	if best == nil || best == current || current != nil && !current.silent(now) && best.rate() <= leadFactor*current.rate() {
		return
	}
	w.current = best.name
	if w.asked == 0 {
		w.setStep(best.step())
	}
	for _, at := range best.windows {
		at.changed, at.fresh = true, true
	}
}

// setStep begins anew with windows of another length.
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

// Lack asks the archive for what the windows lack of the time before the watch.
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
		Selection: w.selection, Step: w.step, Histograms: true, Before: time.Unix(0, current.cut),
		From: time.Unix(0, first), To: time.Unix(0, last).Add(w.step),
	}
	question.Session = current.name
	return question, any && current.name != "" && first > 0
}

// Fill adds what the archive has answered.
func (w *Watch) Fill(answer archive.WindowsAnswer) {
	current := w.sessions[w.current]
	for i := range answer.Windows {
		if at := current.windows[answer.Windows[i].Start.UnixNano()]; at != nil && answer.Step == w.step {
			at.fill(&answer.Windows[i])
		}
	}
}

// makeRoom forgets windows of which nothing came any more.
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

// Fresh reports whether there is a window of which nothing was taken yet.
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

// Changed gives the windows that have changed since it was last asked, by time.
func (w *Watch) Changed() []archive.Window {
	current := w.sessions[w.current]
	if current == nil {
		return nil
	}
	var changed []archive.Window
	for _, at := range current.windows {
		if at.changed {
			at.changed, at.fresh = false, false
			changed = append(changed, at.window(w.histograms))
		}
	}
	slices.SortFunc(changed, func(a, b archive.Window) int { return a.Start.Compare(b.Start) })
	return changed
}
