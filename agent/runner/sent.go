package runner

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"pillion.dev/measure"
	"pillion.dev/probe/block"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/source"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

const (
	// sentEvery is the shortest interval of the rows of sent_flows, and sentEveryMost the longest,
	// since destinations do not remember flows for ever; sentReadEvery is the longest between two
	// readings: a flow that has left the source's table is not read.
	sentEvery     = 500 * time.Millisecond
	sentEveryMost = time.Minute
	sentReadEvery = sweepEvery
	// sentRowsMost bounds the rows of one task and interval; the flows that are left are in later
	// rows.
	sentRowsMost = 16384
)

// sentReader reads what the flows of one source have sent, and delivers it as rows of the
// stream sent_flows to the sessions that ask for them; and so the round trips of these flows (round.go).
type sentReader struct {
	device string
	read   func() ([]source.Sent, error)
	rounds func() ([]source.Round, error) // nil: round trips are not read
	blocks func() (counts []block.Count, missed uint64, err error)
	sink   Sink
	log    *slog.Logger
	now    func() moment

	mu     sync.Mutex
	tasks  []*sentTask
	err    error  // of the last reading
	missed uint64 // blocks that were not read in time

	tick   chan time.Duration // 0: nobody asks for rows
	ending chan struct{}
	ended  sync.WaitGroup
}

// sentTask is a session whose rows are due at its own interval.
type sentTask struct {
	sourceTask
	interval time.Duration
	period   period
	flows    map[sentFlow]source.Sent
	deferred uint64 // rows that were put off since there were too many
	trips    roundTrips
}

// sentFlow identifies a flow and the first number of its series; a flow that starts a new series is another one.
type sentFlow struct {
	key   flow.Key
	start uint32
}

func newSentReader(device string, read func() ([]source.Sent, error), blocks func() ([]block.Count, uint64, error), options Options) *sentReader {
	r := &sentReader{
		device: device, read: read, blocks: blocks, sink: options.Sink, log: options.Log, now: options.now,
		tick: make(chan time.Duration, 1), ending: make(chan struct{}),
	}
	if r.now == nil {
		r.now = present
	}
	r.ended.Go(r.run)
	return r
}

// rename changes the name of the device in rows.
func (r *sentReader) rename(device string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.device = device
}

// assign replaces the tasks. An unchanged task keeps its flows and its period.
func (r *sentReader) assign(tasks []sourceTask) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	before, changed := r.tasks, false
	var wanted []*sentTask
	tick := time.Duration(0)
	for _, task := range tasks {
		if task.Interval <= 0 || !numbered(task) && task.Block == 0 {
			continue
		}
		interval := min(max(time.Duration(task.Interval), sentEvery), sentEveryMost)
		t := &sentTask{interval: interval, period: begin(now, interval), flows: map[sentFlow]source.Sent{}}
		if i := slices.IndexFunc(before, func(t *sentTask) bool { return t.Session == task.Session && t.interval == interval }); i >= 0 {
			t = before[i]
		} else {
			changed = true
		}
		t.sourceTask = task
		wanted = append(wanted, t)
		tick = divisor(tick, min(interval, sentReadEvery))
		if task.Block > 0 {
			tick = divisor(tick, time.Duration(task.Block))
		}
	}
	if changed || len(wanted) != len(before) {
		r.enter() // earlier packets belong to the tasks so far
	}
	for _, old := range before {
		if !slices.Contains(wanted, old) {
			r.emit(old, now)
		}
	}
	r.tasks = wanted
	select {
	case <-r.tick:
	default:
	}
	if tick > 0 {
		tick = max(tick, tickLeast)
	}
	r.tick <- tick
}

// numbered reports whether marks of the task carry numbers.
func numbered(task sourceTask) bool {
	return task.Authenticated || slices.Contains(task.Modules, wire.Loss.String())
}

func (r *sentReader) run() {
	tick := time.Duration(0)
	for {
		var due <-chan time.Time
		if tick > 0 {
			due = time.After(time.Until(boundary(time.Now(), tick)))
		}
		select {
		case <-r.ending:
			return
		case tick = <-r.tick:
			continue
		case <-due:
		}
		r.mu.Lock()
		r.enter()
		r.deliver(r.now())
		r.mu.Unlock()
	}
}

// collect reads flows that are about to leave the source's table.
func (r *sentReader) collect() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tasks) != 0 {
		r.enter()
	}
}

// enter adds what was sent since the last reading to the tasks that measure it.
func (r *sentReader) enter() {
	sent, err := r.read()
	if r.err = err; err != nil {
		r.log.Warn("read what was sent", "device", r.device, "error", err)
		return
	}
	for _, one := range sent {
		for _, t := range r.tasks {
			if t.measures(one.Key) {
				t.add(one)
			}
		}
	}
	r.enterRounds()
	r.enterBlocks()
}

// measures reports whether the session marks the flow.
func (t *sentTask) measures(key flow.Key) bool {
	if _, ok := t.peers[key.Dst]; !ok {
		return false
	}
	fields := t.Fields()
	return len(t.rules) == 0 || slices.ContainsFunc(t.rules, func(f fivetuple.Filter) bool { return f.Over(fields).Matches(key) })
}

func (t *sentTask) add(one source.Sent) {
	k := sentFlow{one.Key, one.Start}
	if before, ok := t.flows[k]; ok {
		one.First, one.Packets = before.First, before.Packets+one.Packets
	}
	t.flows[k] = one
}

// deliver ends the periods that are over.
func (r *sentReader) deliver(now moment) {
	for _, t := range r.tasks {
		if t.period.over(now, t.interval) {
			r.emit(t, now)
			t.period = begin(now, t.interval)
		}
	}
}

// emit delivers the rows of a period. Flows for which there is no room are in the next one.
func (r *sentReader) emit(t *sentTask, now moment) {
	r.emitRounds(t, now)
	rows := 0
	for k, one := range t.flows {
		if rows++; rows > sentRowsMost {
			t.deferred += uint64(len(t.flows))
			return
		}
		r.sink(&measure.Sent, r.row(t, &one, now))
		delete(t.flows, k)
	}
}

func (r *sentReader) row(t *sentTask, one *source.Sent, now moment) measure.Sample {
	return measure.Sample{
		measure.TimeValue(now.day), measure.StringValue(t.Session), measure.StringValue(t.peers[one.Key.Dst]),
		measure.StringValue(r.device), measure.StringValue(addressText(one.Key.Src)), measure.StringValue(addressText(one.Key.Dst)),
		measure.StringValue(fivetuple.ProtocolName(one.Key.Protocol)),
		measure.Uint32Value(uint32(one.Key.Sport)), measure.Uint32Value(uint32(one.Key.Dport)),
		measure.Int64Value(int64(t.period.length(now))), measure.Uint64Value(one.Packets),
		measure.Uint32Value(one.Start), measure.Uint32Value(one.First), measure.Uint32Value(one.Next),
		{}, {},
	}
}

// state returns how many rows of a session were put off, and why the last reading failed.
func (r *sentReader) state(session string) (deferred uint64, err error) {
	if r == nil {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tasks {
		if t.Session == session {
			deferred += t.deferred
		}
	}
	return deferred, r.err
}

// close delivers the last rows. The program marks nothing any more.
func (r *sentReader) close() error {
	if r == nil {
		return nil
	}
	close(r.ending)
	r.ended.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.enter()
	now := r.now()
	for _, t := range r.tasks {
		r.emit(t, now)
	}
	return r.err
}
