package measure

import (
	"container/list"
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// ticksPerWindow divides Every. A window of time ends by the wall clock when that
// many ticks and one more have passed since it was opened, so at least Every: the
// time of further samples would have ended it before.
const ticksPerWindow = 4

// windows holds the open windows of one pipeline. It is not safe for concurrent
// use.
type windows struct {
	plan *plan
	emit func(row Sample) error

	groups map[string]*group
	order  []*group // as they were opened
	free   []*group
	idle   *list.List // of groups without a window whose filters continue, as they were closed
	key    []byte
	row    Sample

	// Of windows of time: from start up to end, in nanoseconds since 1970, of all
	// groups alike.
	start, end int64
	ticks      int

	overflowed, late, saturated uint64
}

// group is the window of one value of the keys.
type group struct {
	key    string
	place  int // in order
	keys   []Value
	kept   []held
	n      int
	latest int64
	idle   *list.Element // nil: the window is open
	states []accumulator
}

func newWindows(p *plan, emit func(row Sample) error) *windows {
	return &windows{plan: p, emit: emit, groups: map[string]*group{}, idle: list.New()}
}

// add takes a sample that fits the point's schema.
func (w *windows) add(sample Sample) error {
	now := int64(sample[0].number)
	var err error
	if w.plan.Every > 0 {
		within := now
		if w.plan.OfWindows && within > math.MinInt64 {
			within--
		}
		err = w.move(within)
	}
	w.key = w.key[:0]
	for _, i := range w.plan.keys {
		w.key = appendKey(w.key, sample[i])
	}
	g := w.groups[string(w.key)]
	if g == nil || g.idle != nil {
		if len(w.order) >= w.plan.Groups {
			w.overflowed++
			return err
		}
		g = w.open(sample, now)
	}
	g.n++
	g.latest = max(g.latest, now)
	for i, input := range w.plan.inputs {
		if input < 0 {
			g.states[i].add(sample[0])
			continue
		}
		v := sample[input]
		if v.kind == 0 || v.kind == Float64 && math.IsNaN(v.Float64()) {
			continue
		}
		g.states[i].add(v)
	}
	if g.n == w.plan.Samples {
		return w.close(g, g.latest)
	}
	return err
}

// move ends the window that a sample's time is beyond. A sample from up to one window
// before the open one came late and is put into it; an earlier one means that the clock
// was set back, and opens a new window.
func (w *windows) move(now int64) error {
	every := int64(w.plan.Every)
	if len(w.order) > 0 && now < w.end {
		if now >= w.start {
			return nil
		}
		if w.start-every > w.start || now >= w.start-every { // the difference may not fit
			w.late++
			return nil
		}
	}
	err := w.closeAll(w.end)
	into := now % every
	if into < 0 {
		into += every
	}
	w.start, w.end = now-into, now-into+every
	switch { // at the ends of time these do not fit
	case w.start > now:
		w.start = math.MinInt64
	case w.end < w.start:
		w.end = math.MaxInt64
	}
	w.ticks = 0
	return err
}

func (w *windows) open(sample Sample, now int64) *group {
	g := w.groups[string(w.key)]
	if g != nil {
		w.idle.Remove(g.idle)
		g.idle = nil
	} else {
		g = w.vacant()
	}
	for i, column := range w.plan.keys {
		g.keys[i] = sample[column].copyTo(&g.kept[i].bytes, &g.kept[i].list)
	}
	g.key, g.n, g.latest, g.place = string(w.key), 0, now, len(w.order)
	w.groups[g.key] = g
	w.order = append(w.order, g)
	return g
}

// vacant is a group without a key.
func (w *windows) vacant() *group {
	if n := len(w.free); n > 0 {
		g := w.free[n-1]
		w.free = w.free[:n-1]
		return g
	}
	if len(w.groups) >= w.plan.Groups { // one is idle, or the sample would be dropped
		delete(w.groups, w.idle.Remove(w.idle.Front()).(*group).key)
	}
	g := &group{kept: make([]held, len(w.plan.keys)), keys: make([]Value, len(w.plan.keys))}
	for i, f := range w.plan.Filters {
		g.states = append(g.states, newAccumulator(f, w.plan.columns[i], w.plan.outputs[i]))
	}
	return g
}

// close turns the window of a group into a row.
func (w *windows) close(g *group, end int64) error {
	err := w.finish(g, end)
	last := len(w.order) - 1
	w.order[g.place] = w.order[last]
	w.order[g.place].place = g.place
	w.order[last] = nil
	w.order = w.order[:last]
	return err
}

// finish leaves the group in order.
func (w *windows) finish(g *group, end int64) error {
	w.row = append(w.row[:0], Value{kind: Time, number: uint64(end)})
	w.row = append(w.row, g.keys...)
	for _, state := range g.states {
		var cut bool
		if w.row, cut = state.emit(w.row); cut {
			w.saturated++
		}
	}
	err := w.emit(w.row)
	for _, state := range g.states {
		state.reset()
	}
	if w.plan.continues {
		g.idle = w.idle.PushBack(g)
		return err
	}
	delete(w.groups, g.key)
	w.free = append(w.free, g)
	return err
}

// closeAll turns windows into rows in the order in which they were opened.
func (w *windows) closeAll(end int64) error {
	return w.each(func(*group) int64 { return end })
}

// flush ends windows before their time: they end at their latest sample.
func (w *windows) flush() error {
	return w.each(func(g *group) int64 { return g.latest })
}

func (w *windows) each(end func(*group) int64) error {
	var errs []error
	for _, g := range w.order {
		if err := w.finish(g, end(g)); err != nil {
			errs = append(errs, err)
		}
	}
	clear(w.order)
	w.order = w.order[:0]
	return errors.Join(errs...)
}

// tick ends windows of time that receive no more samples.
func (w *windows) tick() error {
	if len(w.order) == 0 {
		return nil
	}
	if w.ticks++; w.ticks <= ticksPerWindow {
		return nil
	}
	return w.closeAll(w.end)
}

func (w *windows) period() time.Duration { return max(w.plan.Every/ticksPerWindow, time.Millisecond) }

// appendKey writes a value so that no two different rows of keys look the same.
func appendKey(key []byte, v Value) []byte {
	key = append(key, byte(v.kind))
	switch v.kind {
	case 0:
		return key
	case String:
		return append(binary.AppendUvarint(key, uint64(len(v.text))), v.text...)
	case Binary:
		return append(binary.AppendUvarint(key, uint64(len(v.bytes))), v.bytes...)
	}
	return binary.BigEndian.AppendUint64(key, v.number)
}
