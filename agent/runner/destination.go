package runner

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pillion.dev/agent/validation"
	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// deviceDestination reads marks on one device for all sessions there. It reads the
// program's flows as often as the shortest interval needs and adds the readings to
// the rows of each session.
type deviceDestination struct {
	device hook.Device
	owner  *hook.Owner
	sink   Sink
	log    *slog.Logger
	now    func() moment
	// responder answers path probes, with the keys of sessions; unanswered is why it does not, or not all.
	responder  *validation.Responder
	unanswered error

	mu          sync.Mutex
	probe       *destination.Destination
	reads       reads
	copied      chan struct{} // closed when all records of the probe are delivered; nil without records
	subscribers []*subscriber
	table       peerTable
	pulse       session.Pulse // what is known of the peers' clocks
	err         error         // of the last reading
	copying     error         // of the records
	// Reports of sources: see settle.go.
	waiting      []waitingReport
	waitingFlows int
	dropped      uint64              // flows of reports that gave way
	warned       map[netip.Addr]bool // of sources that number other flows
	clockError   flows.Bound         // of this host's clock

	ending chan struct{}
	ended  sync.WaitGroup
	tick   chan time.Duration
}

// subscriber is a session that receives rows at its own interval.
type subscriber struct {
	task   destinationTask
	rows   *destination.Accumulator
	period period
	began  time.Duration // by the monotonic clock
	// counters since the task began.
	counters map[string]uint64
	// before are the counters of the device when it began.
	before  baseline
	missing missing
	hops    hopDelays
	apart   apart
}

func openDestination(name string, tasks []destinationTask, options Options, now func() moment) (*deviceDestination, error) {
	device, err := hook.Find(name)
	if err != nil {
		return nil, err
	}
	owner, err := hook.Own(roleDestination, device)
	if err != nil {
		return nil, err
	}
	d := &deviceDestination{
		device: device, owner: owner, sink: options.Sink, log: options.Log, now: now,
		responder: validation.NewResponder(options.keys, options.Log),
		ending:    make(chan struct{}), tick: make(chan time.Duration, 1),
	}
	if err := d.open(tasks); err != nil {
		return nil, errors.Join(err, owner.Close())
	}
	d.assign(tasks)
	d.respond()
	return d, nil
}

// respond answers path probes, as soon as other processes do not hold the port.
func (d *deviceDestination) respond() {
	before := d.unanswered
	if d.unanswered = d.responder.Listen(); d.unanswered != nil && before == nil {
		d.log.Warn("the addresses of this host cannot be proven", "device", d.device.Name, "error", d.unanswered)
	}
}

// start begins to read records, and flows at every interval.
func (d *deviceDestination) start() {
	d.startRecords()
	d.ended.Go(d.run)
}

func (d *deviceDestination) startRecords() {
	d.copied = nil
	if d.reads.records {
		probe, copied := d.probe, make(chan struct{})
		d.copied = copied
		d.ended.Go(func() { d.copyRecords(probe, copied) })
	}
}

// reads is what a program reads for its tasks.
type reads struct {
	records, traces bool
	fields          flow.Fields // that identify a flow, of all tasks together
	differ          bool        // tasks have different fields
	flows           int
	idle            time.Duration
}

// wanted is what tasks ask for. The largest table and the longest time count.
func wanted(tasks []destinationTask) reads {
	w := reads{fields: flow.All, differ: fieldsDiffer(tasks)}
	if i := slices.IndexFunc(tasks, readsMarks); i >= 0 && !w.differ {
		w.fields = tasks[i].Fields() // the fields of tasks that read no marks do not matter
	}
	for _, t := range tasks {
		w.records, w.traces = w.records || t.Records, w.traces || t.Hops
		w.flows = max(w.flows, cmp.Or(int(t.Flows), destination.DefaultFlows))
		w.idle = max(w.idle, cmp.Or(time.Duration(t.Idle), destination.DefaultIdle))
	}
	return w
}

// after is what a program reads that replaces one: it takes over the table.
func (w reads) after(before reads) reads {
	w.flows = cmp.Or(before.flows, w.flows)
	return w
}

// open attaches a program to the device and replaces the one before it, if any.
func (d *deviceDestination) open(tasks []destinationTask) error {
	want := wanted(tasks).after(d.reads)
	peers, ingresses := d.table.peers(tasks, d.now().steady)
	settings := destination.Settings{
		Peers: peers, Ingresses: ingresses, Records: want.records, Traces: want.traces, StartEmpty: true,
		Flow: want.fields, FlowsDiffer: want.differ, Flows: want.flows, FlowsPerPeer: want.flows / 4, Idle: want.idle,
		DeliveredOnly: true, Own: ownOf(tasks), Block: blockOf(tasks),
	}
	if local := tasks[0].local; local != nil {
		settings = local.Settings
	}
	before := d.probe
	var probe *destination.Destination
	var err error
	if before == nil {
		probe, err = destination.Open(d.device, settings)
	} else {
		probe, err = before.Replace(settings)
	}
	if err != nil {
		return err
	}
	copied := d.copied
	d.probe, d.reads = probe, want
	if before == nil {
		return nil
	}
	d.startRecords()
	if copied != nil { // it needs the lock to deliver the last records
		d.mu.Unlock()
		<-copied
		d.mu.Lock()
	}
	return before.Close()
}

// follow applies changes of the tasks and of the device.
func (d *deviceDestination) follow(tasks []destinationTask) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := d.device.Now()
	if err != nil {
		return err
	}
	d.device = now
	if local := tasks[0].local; local != nil {
		hidden, changed, err := d.probe.Hidden(d.now().steady)
		if err == nil && changed && local.Hidden != nil {
			err = local.Hidden(hiddenText(hidden))
		}
		if err != nil {
			return err
		}
	}
	if present, err := d.probe.Present(); err != nil {
		return err
	} else if !present {
		return fmt.Errorf("check device %q: the program is no longer there", d.device.Name)
	}
	if err := errors.Join(d.probe.FollowClock(), d.probe.FollowRoutes(), d.followOwn(tasks)); err != nil {
		return err
	}
	if wanted(tasks).after(d.reads) != d.reads {
		if err := d.open(tasks); err != nil {
			return err
		}
	} else if err := d.probe.Accept(d.table.peers(tasks, d.now().steady)); err != nil {
		return err
	}
	if period := blockOf(tasks); period != 0 && tasks[0].local == nil {
		if err := d.probe.SetBlock(period); err != nil {
			return err
		}
	}
	if state, err := clock.Read(); err == nil {
		d.clockError = flows.BoundOf(int64(state.MaxError))
	}
	d.assign(tasks)
	d.respond()
	return nil
}

// assign creates a subscriber for each task. The subscriber of an unchanged task keeps its period.
func (d *deviceDestination) assign(tasks []destinationTask) {
	now := d.now()
	var subscribers []*subscriber
	tick := time.Duration(0)
	for _, task := range tasks {
		r := d.subscriber(task)
		if r == nil {
			r = &subscriber{
				rows:   destination.NewAccumulator(destination.Granularity(task.Granularity)),
				period: begin(now, time.Duration(task.Interval)), began: now.steady, counters: map[string]uint64{},
			}
			if len(d.subscribers) > 0 { // or else the program has just been loaded
				if tally, err := d.probe.Tally(); err == nil { // or else the next reading fails, too
					r.before = d.counters(tally)
				}
			}
		}
		r.task = task
		subscribers = append(subscribers, r)
		tick = divisor(tick, time.Duration(task.Interval))
		if task.Block > 0 {
			tick = divisor(tick, time.Duration(task.Block))
		}
	}
	if len(d.subscribers) > 0 && !slices.Equal(subscribers, d.subscribers) {
		d.take() // earlier packets belong to the subscribers so far
	}
	for _, old := range d.subscribers {
		if !slices.Contains(subscribers, old) {
			d.emit(old, now)
		}
	}
	d.subscribers = subscribers
	select {
	case <-d.tick:
	default:
	}
	tick = max(tick, tickLeast)
	if local := tasks[0].local; local != nil {
		tick = max(divisor(local.Interval, cmp.Or(local.Block, block.Default)), tickLeast)
	}
	d.tick <- tick
}

// subscriber finds the one that can continue with the task.
func (d *deviceDestination) subscriber(task destinationTask) *subscriber {
	for _, r := range d.subscribers {
		if r.task.Session == task.Session && r.task.Granularity == task.Granularity && r.task.Interval == task.Interval {
			return r
		}
	}
	return nil
}

const tickLeast = 50 * time.Millisecond

// divisor is the greatest common divisor, in whole milliseconds.
func divisor(a, b time.Duration) time.Duration {
	for b > 0 {
		a, b = b, a%b
	}
	return a.Truncate(time.Millisecond)
}

func (d *deviceDestination) run() {
	tick := <-d.tick
	for {
		wait := time.Until(boundary(time.Now(), tick))
		select {
		case <-d.ending:
			return
		case tick = <-d.tick:
			continue
		case <-time.After(wait):
		}
		d.mu.Lock()
		d.read(d.now())
		d.mu.Unlock()
	}
}

func (d *deviceDestination) read(now moment) {
	d.settleDue(now.steady, false)
	d.take()
	for _, r := range d.subscribers {
		r.missing.advance(now.steady)
		if interval := time.Duration(r.task.Interval); r.period.over(now, interval) {
			d.emit(r, now)
			r.period = begin(now, interval)
		}
	}
}

// take reads what is new.
func (d *deviceDestination) take() {
	rows, err := d.probe.Read(destination.ByFlow)
	d.err = err
	if err != nil {
		d.log.Warn("read flows", "device", d.device.Name, "error", err)
		return
	}
	d.takeTraces()
	d.give(rows)
}

// give adds rows to the subscribers whose tasks cover them.
func (d *deviceDestination) give(rows []destination.Row) {
	for _, r := range d.subscribers {
		var wanted []destination.Row
		for _, row := range rows {
			fields := cmp.Or(row.Key.Fields, d.reads.fields)
			if fields == r.task.Fields() && r.task.wants(row.Key) {
				wanted = append(wanted, row)
				r.missing.add(r.task.agentOf(row.Key), row.Packets, row.Lost-row.Announced)
			}
		}
		r.rows.Add(wanted)
	}
}

// emit delivers the rows of a period.
func (d *deviceDestination) emit(r *subscriber, now moment) {
	state, err := clock.Read()
	if err != nil {
		d.log.Warn("read clock", "error", err)
	}
	if local := r.task.local; local != nil {
		tally, tallied := d.probe.Tally()
		d.warn(tally.Mismatches)
		d.err = errors.Join(d.err, err, tallied, local.Rows(LocalRows{now.day, r.rows.Take(), r.hops.take(), d.probe.Blocks(), tally, state}))
		return
	}
	for _, row := range r.rows.Take() {
		r.count(row.Counts)
		d.sink(&measure.Flows, d.flowRow(r, &row, now, state).Sample(nil))
		d.emitModules(r, &row, now, state)
	}
	d.emitHops(r, now, flows.BoundOf(int64(state.MaxError)))
}

func (r *subscriber) count(c destination.Counts) {
	r.counters["packets"] += c.Packets
	r.counters["bytes"] += c.Bytes
	r.counters["expected"] += c.Expected
	r.counters["lost"] += c.Lost
	r.counters["duplicated"] += c.Duplicated
	r.counters["reordered"] += c.Reordered
	r.counters["unchecked"] += c.Unchecked
	r.counters["rows"]++
}

func (d *deviceDestination) setClocks(pulse session.Pulse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulse = pulse
}

// counters returns what the program of the device has counted, by name.
func (d *deviceDestination) counters(tally destination.Tally) map[string]uint64 {
	all := map[string]uint64{
		"device_seen": tally.Seen, "device_marked": tally.Packets, "device_rejected": tally.Rejected,
		"device_forged": tally.Reasons["forged"], "device_filtered": tally.Reasons["filter"], "device_replayed": tally.Reasons["replayed"],
		"device_flow": tally.Reasons["flow"], "device_transit": tally.Reasons["transit"], "device_amended": tally.Amended,
		"records_dropped": tally.RecordsDropped, "flows_full": tally.FlowsFull, "uncounted": tally.Uncounted,
		"module_states_full": tally.ModuleStatesFull,
	}
	for name, n := range map[string]uint64{
		"sent_packets_unsettled": d.probe.Unsettled(), "block_packets_unsettled": d.probe.BlocksUnsettled(), "sent_reports_dropped": d.dropped,
		"delays_left_out": tally.DelaysLeftOut,
	} {
		if n != 0 {
			all[name] = n
		}
	}
	return all
}

func (d *deviceDestination) states() []session.TaskState {
	d.mu.Lock()
	defer d.mu.Unlock()
	hidden, _, unsure := d.probe.Hidden(d.now().steady)
	hidden = hiddenText(hidden)
	tally, uncounted := d.probe.Tally()
	err := errors.Join(d.err, d.copying, uncounted, unsure)
	var states []session.TaskState
	for _, r := range d.subscribers {
		counters := d.counters(tally)
		if uncounted == nil {
			r.before.subtract(counters)
		}
		maps.Copy(counters, r.counters)
		if len(r.task.amended) == 0 {
			delete(counters, "device_amended")
		}
		if r.apart.packets != 0 {
			counters["block_packets_unsettled"] += r.apart.packets
		}
		if r.task.Hops {
			counters["traces"], counters["traces_dropped"] = r.hops.read, r.hops.dropped
			traces, failed := d.probe.TraceTally()
			err = errors.Join(err, failed)
			counters["device_traces_dropped"], counters["device_traces_malformed"] = traces.Dropped, traces.Malformed
		}
		state := session.TaskState{
			Session: r.task.Session, Role: roleDestination, Device: d.device.Name, Running: err == nil, Counters: counters,
			Missing: r.missing.peers(), Limit: joinLimits(hidden, d.limit(r, tally.Mismatches), r.apart.limit(time.Duration(r.task.Block))),
			OtherFlows: r.otherFlows(tally.Mismatches),
		}
		if d.unanswered != nil && len(r.task.amended) == 0 {
			state.Unanswered = d.unanswered.Error()
			state.Limit = joinLimits(state.Limit, state.Unanswered)
		}
		if err != nil {
			state.Error = err.Error()
		}
		states = append(states, state)
	}
	return states
}

// limit is what of the task is not done.
func (d *deviceDestination) limit(r *subscriber, mismatches []destination.Mismatch) string {
	switch limit := d.table.limits[r.task.Session]; {
	case limit != "":
		return limit
	case len(r.otherFlows(mismatches)) > 0:
		return r.otherFlowsText(mismatches)
	case int(r.task.Flows) > d.reads.flows:
		return fmt.Sprintf("the table of %s has room for %d flows, since a session with fewer was the first to read marks there; it grows to %d when no session reads marks there for a moment",
			d.device.Name, d.reads.flows, r.task.Flows)
	}
	return ""
}

// close detaches the program and delivers the last rows.
func (d *deviceDestination) close() error {
	err := d.detach()
	d.finish()
	return errors.Join(err, d.responder.Close(), d.probe.Close(), d.owner.Close())
}

func (d *deviceDestination) detach() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.probe.Detach()
}

// failure is why rows or records are missing.
func (d *deviceDestination) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.err, d.copying)
}

// leave keeps the program attached and delivers the last rows.
func (d *deviceDestination) leave() error {
	d.finish()
	return errors.Join(d.responder.Close(), d.probe.Leave(), d.owner.Close())
}

// finish stops reading and delivers the last rows.
func (d *deviceDestination) finish() {
	close(d.ending)
	d.ended.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.settleDue(now.steady, true)
	d.take()
	for _, r := range d.subscribers {
		d.emit(r, now)
	}
}

// clearLeftovers detaches programs that an earlier process left on devices without a task:
// destinations that stay when an agent stops, and clsact filters of one that was killed. On a
// device with a destination task that is not running, the program still restores packets.
func (r *Runner) clearLeftovers() {
	allowed, _ := r.permitted(r.assignment)
	placed, _ := place(allowed)
	wanted := r.byIndex(placed)
	interfaces, err := net.Interfaces()
	if err != nil {
		r.options.Log.Warn("list interfaces", "error", err)
		return
	}
	for _, i := range interfaces {
		device, err := hook.Find(i.Name)
		if err != nil {
			continue // not a device that can carry a program
		}
		if len(wanted[i.Name].destinations) == 0 {
			r.clearDevice(roleDestination, device, destination.Clear)
		}
		if len(wanted[i.Name].sources) == 0 {
			r.clearDevice(roleSource, device, source.Clear)
		}
	}
}

func (r *Runner) clearDevice(role string, device hook.Device, clear func(hook.Device) error) {
	owner, err := hook.Own(role, device)
	if err != nil {
		return // it runs there by hand
	}
	r.report(role, device.Name, errors.Join(clear(device), owner.Close()))
}
