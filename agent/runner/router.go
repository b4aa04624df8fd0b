package runner

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/measure/point"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/router"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// routerProfile profiles the host as a router, for all sessions with one filter.
type routerProfile struct {
	sink Sink
	log  *slog.Logger
	now  func() moment
	sent bool // record the packets of senders

	mu          sync.Mutex
	probe       *router.Router
	devices     map[int]string // names by index
	subscribers []*profileSubscriber
	err         error // of the last reading
	delivering  error // of delivering coffee breaks, records, and anything to a LocalRouter

	ending chan struct{}
	ended  sync.WaitGroup
	tick   chan time.Duration
	// cancel ends the reading of coffee breaks and records.
	cancel  context.CancelFunc
	readers sync.WaitGroup
}

// profileTask is the task of a session, or of a profile by hand.
type profileTask struct {
	session.PointTask
	local *LocalRouter
}

// causes reports whether the task asks for the causes of coffee breaks.
func (t profileTask) causes() bool {
	if t.local != nil {
		return t.local.Causes
	}
	return point.Options(t.Options).Switch(point.RouterCauses)
}

// packets reports whether the task asks for a row for each packet of a sender.
func (t profileTask) packets() bool { return point.Options(t.Options).Switch(point.RouterPackets) }

// profileSubscriber is a session that receives rows of the profile at its own interval.
type profileSubscriber struct {
	task   profileTask
	period period
	before router.Snapshot // at the end of the last period
	// peaks are the largest depths of queues in the period. A snapshot has them only since
	// the previous one, which may have been for another session.
	peaks map[queueSide]uint64
	// counters since the task began.
	counters map[string]uint64
}

// runs reports whether the subscriber runs this task.
func (r *profileSubscriber) runs(task profileTask) bool { return reflect.DeepEqual(r.task, task) }

// queueSide identifies a queue.
type queueSide struct {
	device int
	input  bool
}

func openRouter(profile router.Options, tasks []profileTask, options Options) (*routerProfile, error) {
	probe, err := router.Open(profile)
	if err != nil {
		return nil, err
	}
	m := &routerProfile{
		sink: options.Sink, log: options.Log, now: options.now, probe: probe, sent: profile.SentOnly,
		ending: make(chan struct{}), tick: make(chan time.Duration, 1),
	}
	if err := m.assign(tasks); err != nil {
		return nil, errors.Join(err, probe.Close())
	}
	return m, nil
}

// start begins to read the profile at every interval, and its coffee breaks and records.
func (m *routerProfile) start() {
	m.ended.Go(m.run)
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.goRead(func() error { return m.probe.Breaks(ctx, m.takeBreak) })
	if local := m.subscribers[0].task.local; local != nil && local.Records {
		m.goRead(func() error { return m.probe.Records(ctx, local.Record) })
	} else if local == nil && m.sent {
		m.goRead(func() error { return m.probe.Records(ctx, m.takePacket) })
	}
}

func (m *routerProfile) goRead(read func() error) {
	m.readers.Go(func() {
		if err := read(); err != nil {
			m.log.Warn("profile router", "error", err)
			m.mu.Lock()
			m.delivering = errors.Join(m.delivering, err)
			m.mu.Unlock()
		}
	})
}

// follow applies changes of the tasks.
func (m *routerProfile) follow(tasks []profileTask) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.EqualFunc(m.subscribers, tasks, (*profileSubscriber).runs) {
		return nil
	}
	return m.assign(tasks)
}

// assign creates a subscriber for each task. The subscriber of an unchanged task keeps its period.
func (m *routerProfile) assign(tasks []profileTask) error {
	shot, err := m.snapshot()
	if err != nil {
		return err
	}
	now, tick := m.now(), time.Duration(0)
	old := m.subscribers
	m.subscribers = nil
	for _, task := range tasks {
		var r *profileSubscriber
		if i := slices.IndexFunc(old, func(r *profileSubscriber) bool { return r.runs(task) }); i >= 0 {
			r = old[i]
			old = slices.Delete(old, i, i+1)
		} else {
			r = &profileSubscriber{task: task, period: begin(now, time.Duration(task.Interval)), before: shot.Begin(), counters: map[string]uint64{}, peaks: map[queueSide]uint64{}}
		}
		m.subscribers = append(m.subscribers, r)
		tick = divisor(tick, time.Duration(task.Interval))
	}
	for _, r := range old {
		m.emit(r, &shot, now)
	}
	if err := m.probe.RecordCauses(slices.ContainsFunc(tasks, profileTask.causes)); err != nil {
		return err
	}
	select {
	case <-m.tick:
	default:
	}
	tick = max(tick, tickLeast)
	if local := tasks[0].local; local != nil {
		tick = local.Interval
	}
	m.tick <- tick
	return nil
}

func (m *routerProfile) run() {
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

// read ends the periods that are over.
func (m *routerProfile) read(now moment) {
	var due []*profileSubscriber
	for _, r := range m.subscribers {
		if r.period.over(now, time.Duration(r.task.Interval)) {
			due = append(due, r)
		}
	}
	if len(due) > 0 {
		m.give(due, now)
	}
}

// give reads the profile and emits the rows of the due subscribers. If reading fails, their
// periods are extended.
func (m *routerProfile) give(due []*profileSubscriber, now moment) {
	shot, err := m.snapshot()
	if m.err = err; err != nil {
		m.log.Warn("read router", "error", err)
		return
	}
	for _, r := range due {
		m.emit(r, &shot, now)
	}
}

// snapshot reads the profile and updates the peaks of all subscribers.
func (m *routerProfile) snapshot() (router.Snapshot, error) {
	shot, err := m.probe.Snapshot()
	if err != nil {
		return shot, err
	}
	for _, r := range m.subscribers {
		for i := range shot.Queues {
			q := &shot.Queues[i]
			side := queueSide{q.Interface.Index, q.Input}
			r.peaks[side] = max(r.peaks[side], q.RecentMax)
		}
	}
	return shot, nil
}

// takeBreak delivers a coffee break to all subscribers.
func (m *routerProfile) takeBreak(b router.Break) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.subscribers {
		if r.task.local != nil {
			return r.task.local.CoffeeBreak(b)
		}
		rows := routerRows{sink: m.sink, session: r.task.Session, day: b.Start}
		rows.coffee(&b)
		r.counters["rows"] += rows.count
	}
	return nil
}

// takePacket delivers a packet of a sender to all subscribers.
func (m *routerProfile) takePacket(r router.Record) error {
	offset, err := clock.MonotonicOffset()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subscribers {
		rows := routerRows{sink: m.sink, session: s.task.Session, day: time.Unix(0, int64(r.T2)+int64(offset))}
		rows.packet(&r, m.device(r.In), m.device(r.Out))
		s.counters["rows"] += rows.count
	}
	return nil
}

// device is the name of an interface by its index, which stands for one that is gone. Names are
// read again for an unknown index only.
func (m *routerProfile) device(index int) string {
	if m.devices[index] == "" {
		if names, err := m.probe.Interfaces(); err == nil {
			m.devices = names
		}
	}
	return cmp.Or(m.devices[index], strconv.Itoa(index))
}

// emit delivers the rows of a period.
func (m *routerProfile) emit(r *profileSubscriber, shot *router.Snapshot, now moment) {
	if local := r.task.local; local != nil {
		r.period = begin(now, local.Interval)
		m.delivering = errors.Join(m.delivering, local.Read(*shot))
		return
	}
	difference := shot.Sub(r.before)
	rows := routerRows{sink: m.sink, session: r.task.Session, day: now.day, length: r.period.length(now)}
	rows.pairs(&difference)
	rows.queues(&difference, r.peaks)
	rows.account(&difference.Account, difference.Breaks.Count)
	for name, n := range accountCounters(&difference.Account) {
		r.counters[name] += n
	}
	r.counters["rows"] += rows.count
	r.before, r.period = *shot, begin(now, time.Duration(r.task.Interval))
	clear(r.peaks)
}

func (m *routerProfile) states() []session.TaskState {
	m.mu.Lock()
	defer m.mu.Unlock()
	var states []session.TaskState
	for _, r := range m.subscribers {
		counters := maps.Clone(r.counters)
		counters["in_flight"] = r.before.Account.InFlight
		state := session.TaskState{Session: r.task.Session, Role: r.task.Point, Running: m.err == nil, Counters: counters}
		if m.err != nil {
			state.Error = m.err.Error()
		}
		states = append(states, state)
	}
	return states
}

// settleTime bounds the wait for packets that are inside the router at the end.
const settleTime = 200 * time.Millisecond

// finish stops reading: it waits until the packets inside the router have left, and
// delivers the last coffee breaks and records.
func (m *routerProfile) finish(patience time.Duration) error {
	close(m.ending)
	m.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := m.probe.Settle(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the account says what is in flight
	}
	m.cancel()
	m.readers.Wait()
	return err
}

// failure is why snapshots, breaks or records are missing.
func (m *routerProfile) failure() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.err, m.delivering)
}

// close ends the profile and delivers the last rows.
func (m *routerProfile) close() error {
	if err := m.finish(settleTime); err != nil {
		m.log.Warn("end router", "error", err)
	}
	m.mu.Lock()
	m.give(m.subscribers, m.now())
	m.mu.Unlock()
	return m.probe.Close()
}

func init() { Register(point.Router.Name, openRouters) }

// profileKey is what sessions that share a profile have in common.
type profileKey struct {
	filter  fivetuple.Filter
	packets bool // a row for each packet of a sender
}

// routers profiles the host as a router, once for each filter of a session.
type routers struct {
	options  Options
	profiles map[profileKey]*routerProfile
	failed   map[profileKey]routerFault // profiles that did not start
	faults   []session.TaskState
}

func openRouters(options Options) Point {
	return &routers{options: options, profiles: map[profileKey]*routerProfile{}, failed: map[profileKey]routerFault{}}
}

// Apply implements Point.
func (r *routers) Apply(tasks []session.PointTask) {
	byKey := map[profileKey][]profileTask{}
	for _, task := range tasks {
		t := profileTask{PointTask: task}
		key := profileKey{packets: t.packets()}
		if len(task.Filters) > 0 {
			key.filter = task.Filters[0]
		}
		byKey[key] = append(byKey[key], t)
	}
	for key, m := range r.profiles {
		if len(byKey[key]) == 0 {
			if err := m.close(); err != nil {
				r.options.Log.Warn("end profile", "filter", key.filter, "error", err)
			}
			delete(r.profiles, key)
		}
	}
	r.faults = nil
	for key, wanted := range byKey {
		if err := r.profile(key, wanted); err != nil {
			for _, task := range wanted {
				r.faults = append(r.faults, session.TaskState{Session: task.Session, Role: task.Point, Error: err.Error()})
			}
		}
	}
}

// routerRetryAfter is the delay before a profile that failed to start is tried again:
// its programs take half a second of processor time to load.
const routerRetryAfter = 30 * time.Second

// routerFault is why a profile failed to start, and when, by the monotonic clock.
type routerFault struct {
	err error
	at  time.Duration
}

func (r *routers) profile(key profileKey, tasks []profileTask) error {
	if m := r.profiles[key]; m != nil {
		return m.follow(tasks)
	}
	now := r.options.now().steady
	if fault := r.failed[key]; fault.err != nil && now-fault.at < routerRetryAfter {
		return fault.err
	}
	match := router.Match{Source: key.filter.Src, Destination: key.filter.Dst}
	m, err := openRouter(router.Options{Match: match, Records: key.packets, SentOnly: key.packets}, tasks, r.options)
	if err != nil {
		r.options.Log.Warn("profile router", "error", err)
		r.failed[key] = routerFault{err, now}
		return err
	}
	m.start()
	delete(r.failed, key)
	r.profiles[key] = m
	return nil
}

// States implements Point.
func (r *routers) States() []session.TaskState {
	states := slices.Clone(r.faults)
	for _, m := range r.profiles {
		states = append(states, m.states()...)
	}
	slices.SortFunc(states, func(a, b session.TaskState) int { return cmp.Compare(a.Session, b.Session) })
	return states
}

// Cost is what the profiles' programs cost, where the kernel counts it.
func (r *routers) Cost() (sum hook.Cost, counted bool, err error) {
	for _, m := range r.profiles {
		cost, ok, fault := m.probe.Cost()
		sum.Time, sum.Runs = sum.Time+cost.Time, sum.Runs+cost.Runs
		counted, err = counted || ok, errors.Join(err, fault)
	}
	return sum, counted, err
}

// Close implements Point.
func (r *routers) Close() error {
	var err error
	for _, m := range r.profiles {
		err = errors.Join(err, m.close())
	}
	return err
}
