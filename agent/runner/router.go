package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"pillion.dev/probe/router"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// routerModule profiles the host as a router, for all sessions with one filter.
type routerModule struct {
	sink Sink
	log  *slog.Logger
	now  func() moment

	mu      sync.Mutex
	probe   *router.Router
	readers []*routerReader
	err     error // of the last reading

	ending chan struct{}
	ended  sync.WaitGroup
	tick   chan time.Duration
	// listening ends the reading of coffee breaks.
	listening context.CancelFunc
	listened  sync.WaitGroup
}

// routerReader is one session's view of the profile.
type routerReader struct {
	task   session.RouterTask
	turn   turn
	before router.Snapshot // what was given out
	// peaks are the largest depths of queues in the window: each snapshot of the
	// profile, whoever asked for it, tells them since the one before.
	peaks map[queueSide]uint64
	// counters since the task began.
	counters map[string]uint64
}

// queueSide names a queue.
type queueSide struct {
	device int
	input  bool
}

func openRouter(filter fivetuple.Filter, tasks []session.RouterTask, options Options, now func() moment) (*routerModule, error) {
	probe, err := router.Open(router.Options{Match: router.Match{Source: filter.Src, Destination: filter.Dst}})
	if err != nil {
		return nil, err
	}
	m := &routerModule{
		sink: options.Sink, log: options.Log, now: now, probe: probe,
		ending: make(chan struct{}), tick: make(chan time.Duration, 1),
	}
	if err := m.assign(tasks); err != nil {
		return nil, errors.Join(err, probe.Close())
	}
	m.ended.Add(1)
	go m.run()
	ctx, cancel := context.WithCancel(context.Background())
	m.listening = cancel
	m.listened.Go(func() {
		if err := probe.Breaks(ctx, m.takeBreak); err != nil {
			m.log.Warn("read coffee breaks", "error", err)
		}
	})
	return m, nil
}

// follow takes up changes of the tasks.
func (m *routerModule) follow(tasks []session.RouterTask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := len(tasks) == len(m.readers)
	for i := range tasks {
		same = same && m.readers[i].task == tasks[i]
	}
	if same {
		return nil
	}
	return m.assign(tasks)
}

// assign gives each task a reader; one that goes on keeps its window.
func (m *routerModule) assign(tasks []session.RouterTask) error {
	shot, err := m.snapshot()
	if err != nil {
		return err
	}
	now, tick := m.now(), time.Duration(0)
	old := map[session.RouterTask]*routerReader{}
	for _, r := range m.readers {
		old[r.task] = r
	}
	m.readers = nil
	for _, task := range tasks {
		r := old[task]
		delete(old, task)
		if r == nil {
			r = &routerReader{task: task, turn: begin(now, time.Duration(task.Interval)), before: shot, counters: map[string]uint64{}, peaks: map[queueSide]uint64{}}
		}
		m.readers = append(m.readers, r)
		tick = divisor(tick, time.Duration(task.Interval))
	}
	for _, r := range old {
		m.emit(r, &shot, now)
	}
	select {
	case <-m.tick:
	default:
	}
	m.tick <- max(tick, tickLeast)
	return nil
}

func (m *routerModule) run() {
	defer m.ended.Done()
	tick := <-m.tick
	for {
		select {
		case <-m.ending:
			return
		case tick = <-m.tick:
			continue
		case <-time.After(time.Until(boundary(time.Now(), tick))):
		}
		m.mu.Lock()
		m.read(m.now())
		m.mu.Unlock()
	}
}

// read ends the windows that are over.
func (m *routerModule) read(now moment) {
	var due []*routerReader
	for _, r := range m.readers {
		if r.turn.over(now, time.Duration(r.task.Interval)) {
			due = append(due, r)
		}
	}
	if len(due) > 0 {
		m.give(due, now)
	}
}

// give reads the profile for them. What cannot be read is in a later window.
func (m *routerModule) give(due []*routerReader, now moment) {
	shot, err := m.snapshot()
	if m.err = err; err != nil {
		m.log.Warn("read router", "error", err)
		return
	}
	for _, r := range due {
		m.emit(r, &shot, now)
	}
}

// snapshot reads the profile, for all.
func (m *routerModule) snapshot() (router.Snapshot, error) {
	shot, err := m.probe.Snapshot()
	if err != nil {
		return shot, err
	}
	for _, r := range m.readers {
		for i := range shot.Queues {
			q := &shot.Queues[i]
			side := queueSide{q.Interface.Index, q.Input}
			r.peaks[side] = max(r.peaks[side], q.RecentMax)
		}
	}
	return shot, nil
}

// takeBreak gives a coffee break to all sessions.
func (m *routerModule) takeBreak(b router.Break) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.readers {
		rows := routerRows{sink: m.sink, session: r.task.Session, day: b.Start}
		rows.coffee(&b)
		r.counters["rows"] += rows.count
	}
	return nil
}

// emit ends a window.
func (m *routerModule) emit(r *routerReader, shot *router.Snapshot, now moment) {
	difference := shot.Sub(r.before)
	rows := routerRows{sink: m.sink, session: r.task.Session, day: now.day, length: r.turn.length(now)}
	rows.pairs(&difference)
	rows.queues(&difference, r.peaks)
	rows.account(&difference.Account, difference.Breaks.Count)
	for name, n := range accountCounters(&difference.Account) {
		r.counters[name] += n
	}
	r.counters["rows"] += rows.count
	r.before, r.turn = *shot, begin(now, time.Duration(r.task.Interval))
	clear(r.peaks)
}

func (m *routerModule) states() []session.TaskState {
	m.mu.Lock()
	defer m.mu.Unlock()
	var states []session.TaskState
	for _, r := range m.readers {
		counters := maps.Clone(r.counters)
		counters["in_flight"] = r.before.Account.InFlight
		state := session.TaskState{Session: r.task.Session, Role: roleRouter, Running: m.err == nil, Counters: counters}
		if m.err != nil {
			state.Error = m.err.Error()
		}
		states = append(states, state)
	}
	return states
}

// settleTime bounds the wait for packets that are inside the router at the end.
const settleTime = 200 * time.Millisecond

// close ends the profile and gives out what is left.
func (m *routerModule) close() error {
	close(m.ending)
	m.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	m.mu.Lock()
	if err := m.probe.Settle(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		m.log.Warn("end router", "error", err)
	}
	m.give(m.readers, m.now())
	m.mu.Unlock()
	m.listening() // the last breaks are given out
	m.listened.Wait()
	return m.probe.Close()
}

// routerTasks are those to be done now, by filter: the host's own, and those whose
// lease is not over. The others are faults.
func (r *Runner) routerTasks(now moment) map[fivetuple.Filter][]session.RouterTask {
	tasks := map[fivetuple.Filter][]session.RouterTask{}
	if r.options.Router > 0 {
		tasks[fivetuple.Filter{}] = []session.RouterTask{{Interval: session.Duration(r.options.Router)}}
	}
	for _, task := range r.assignment.Routers {
		if silent := now.steady - r.heard; silent > time.Duration(task.Lease) {
			r.fail(roleRouter, task.Session, "", fmt.Errorf("%w for %v", errSilent, silent.Round(time.Second)))
			continue
		}
		tasks[task.Filter] = append(tasks[task.Filter], task)
	}
	return tasks
}

var errSilent = errors.New("nothing was heard of the server")

// runRouters moves from what is profiled to what shall be.
func (r *Runner) runRouters() {
	tasks := r.routerTasks(r.now())
	for filter, m := range r.routers {
		if len(tasks[filter]) == 0 {
			r.report(roleRouter, filter.String(), m.close())
			delete(r.routers, filter)
		}
	}
	for filter, wanted := range tasks {
		if err := r.runRouter(filter, wanted); err != nil {
			for _, task := range wanted {
				r.fail(roleRouter, task.Session, "", err)
			}
		}
	}
}

// routerAgain is how long a profile that did not begin is left alone: its programs take
// half a second of a processor to load.
const routerAgain = 30 * time.Second

// routerFault is why a profile did not begin, and when, by the steady clock.
type routerFault struct {
	err error
	at  time.Duration
}

func (r *Runner) runRouter(filter fivetuple.Filter, tasks []session.RouterTask) error {
	if m := r.routers[filter]; m != nil {
		return m.follow(tasks)
	}
	now := r.now().steady
	if fault := r.routerFaults[filter]; fault.err != nil && now-fault.at < routerAgain {
		return fault.err
	}
	m, err := openRouter(filter, tasks, r.options, r.now)
	if err != nil {
		r.options.Log.Warn("profile router", "error", err)
		r.routerFaults[filter] = routerFault{err, now}
		return err
	}
	delete(r.routerFaults, filter)
	r.routers[filter] = m
	return nil
}
