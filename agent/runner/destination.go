package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// destinationModule reads marks on one device for all sessions there. It reads the
// program's flows as often as the least interval needs, and puts the readings into
// a window of each session.
type destinationModule struct {
	device hook.Device
	owner  *net.UnixListener
	sink   Sink
	log    *slog.Logger
	now    func() moment

	mu      sync.Mutex
	probe   *destination.Destination
	records bool
	copied  chan struct{} // closed when all records of probe are given out; nil without
	readers []*reader
	pulse   session.Pulse // what is known of the peers' clocks
	err     error         // of the last reading
	copying error         // of the records

	ending chan struct{}
	ended  sync.WaitGroup
	tick   chan time.Duration
}

// reader is one session's view of what is read.
type reader struct {
	task   destinationTask
	window *destination.Window
	turn   turn
	// counters since the task began.
	counters map[string]uint64
}

func openDestination(name string, tasks []destinationTask, options Options, now func() moment) (*destinationModule, error) {
	device, err := hook.Find(name)
	if err != nil {
		return nil, err
	}
	owner, err := hook.Own(roleDestination, device)
	if err != nil {
		return nil, err
	}
	d := &destinationModule{
		device: device, owner: owner, sink: options.Sink, log: options.Log, now: now,
		ending: make(chan struct{}), tick: make(chan time.Duration, 1),
	}
	if err := d.open(tasks); err != nil {
		return nil, errors.Join(err, owner.Close())
	}
	d.assign(tasks)
	return d, nil
}

// start begins to read records, and flows at every interval.
func (d *destinationModule) start() {
	d.startRecords()
	d.ended.Go(d.run)
}

func (d *destinationModule) startRecords() {
	d.copied = nil
	if d.records {
		probe, copied := d.probe, make(chan struct{})
		d.copied = copied
		d.ended.Go(func() { d.copyRecords(probe, copied) })
	}
}

// open puts a program on the device, in the place of the one that may be there.
func (d *destinationModule) open(tasks []destinationTask) error {
	records := slices.ContainsFunc(tasks, func(t destinationTask) bool { return t.Records })
	settings := destination.Settings{Peers: prefixes(tasks), Records: records, StartEmpty: true}
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
	d.probe, d.records = probe, records
	if before == nil {
		return nil
	}
	d.startRecords()
	if copied != nil { // it needs the lock to give out the last records
		d.mu.Unlock()
		<-copied
		d.mu.Lock()
	}
	return before.Close()
}

func prefixes(tasks []destinationTask) []netip.Prefix {
	all := map[netip.Prefix]bool{}
	for _, task := range tasks {
		if task.local != nil {
			return task.local.Peers
		}
		for address := range task.peers {
			all[netip.PrefixFrom(address, address.BitLen())] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// follow takes up changes of the tasks and of the device.
func (d *destinationModule) follow(tasks []destinationTask) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, err := hook.Find(d.device.Name)
	if err != nil {
		return err
	}
	if now.Index != d.device.Index {
		return fmt.Errorf("follow device %q: it was replaced", d.device.Name)
	}
	if present, err := d.probe.Present(); err != nil {
		return err
	} else if !present {
		return fmt.Errorf("check device %q: the program is no longer there", d.device.Name)
	}
	if err := d.probe.FollowClock(); err != nil {
		return err
	}
	if slices.ContainsFunc(tasks, func(t destinationTask) bool { return t.Records }) != d.records {
		if err := d.open(tasks); err != nil {
			return err
		}
	} else if err := d.probe.Accept(prefixes(tasks)); err != nil {
		return err
	}
	d.assign(tasks)
	return nil
}

// assign gives each task a reader; one that goes on keeps its window.
func (d *destinationModule) assign(tasks []destinationTask) {
	now := d.now()
	var readers []*reader
	tick := time.Duration(0)
	for _, task := range tasks {
		r := d.reader(task)
		if r == nil {
			r = &reader{
				window: destination.NewWindow(destination.Granularity(task.Granularity)),
				turn:   begin(now, time.Duration(task.Interval)), counters: map[string]uint64{},
			}
		}
		r.task = task
		readers = append(readers, r)
		tick = divisor(tick, time.Duration(task.Interval))
	}
	if len(d.readers) > 0 && !slices.Equal(readers, d.readers) {
		d.take() // earlier packets belong to the readers of that time
	}
	for _, old := range d.readers {
		if !slices.Contains(readers, old) {
			d.emit(old, now)
		}
	}
	d.readers = readers
	select {
	case <-d.tick:
	default:
	}
	tick = max(tick, tickLeast)
	if local := tasks[0].local; local != nil {
		tick = local.Interval
	}
	d.tick <- tick
}

// reader finds the one that can go on with the task.
func (d *destinationModule) reader(task destinationTask) *reader {
	for _, r := range d.readers {
		if r.task.Session == task.Session && r.task.Granularity == task.Granularity && r.task.Interval == task.Interval {
			return r
		}
	}
	return nil
}

const tickLeast = 50 * time.Millisecond

// divisor is the greatest common one, in whole milliseconds.
func divisor(a, b time.Duration) time.Duration {
	for b > 0 {
		a, b = b, a%b
	}
	return a.Truncate(time.Millisecond)
}

func (d *destinationModule) run() {
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

func (d *destinationModule) read(now moment) {
	d.take()
	for _, r := range d.readers {
		if interval := time.Duration(r.task.Interval); r.turn.over(now, interval) {
			d.emit(r, now)
			r.turn = begin(now, interval)
		}
	}
}

// take puts what is new into the windows of those who asked for it.
func (d *destinationModule) take() {
	rows, err := d.probe.Read(destination.ByFlow)
	d.err = err
	if err != nil {
		d.log.Warn("read flows", "device", d.device.Name, "error", err)
		return
	}
	for _, r := range d.readers {
		var wanted []destination.Row
		for _, row := range rows {
			if r.task.wants(row.Key) {
				wanted = append(wanted, row)
			}
		}
		r.window.Add(wanted)
	}
}

// emit ends a window.
func (d *destinationModule) emit(r *reader, now moment) {
	state, err := clock.Read()
	if err != nil {
		d.log.Warn("read clock", "error", err)
	}
	if local := r.task.local; local != nil {
		tally, tallied := d.probe.Tally()
		d.err = errors.Join(d.err, err, tallied, local.Rows(LocalRows{now.day, r.window.Take(), tally, state}))
		return
	}
	for _, row := range r.window.Take() {
		r.count(row.Counts)
		d.sink(&measure.Flows, d.flowRow(r, &row, now, state).Sample(nil))
	}
}

func (r *reader) count(c destination.Counts) {
	r.counters["packets"] += c.Packets
	r.counters["bytes"] += c.Bytes
	r.counters["expected"] += c.Expected
	r.counters["lost"] += c.Lost
	r.counters["duplicated"] += c.Duplicated
	r.counters["reordered"] += c.Reordered
	r.counters["rows"]++
}

func (d *destinationModule) setClocks(pulse session.Pulse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulse = pulse
}

func (d *destinationModule) states() []session.TaskState {
	d.mu.Lock()
	defer d.mu.Unlock()
	tally, err := d.probe.Tally()
	err = errors.Join(d.err, d.copying, err)
	var states []session.TaskState
	for _, r := range d.readers {
		counters := maps.Clone(r.counters)
		counters["device_seen"] = tally.Seen
		counters["device_marked"] = tally.Packets
		counters["device_rejected"] = tally.Rejected
		counters["records_dropped"] = tally.RecordsDropped
		counters["flows_full"] = tally.FlowsFull
		counters["uncounted"] = tally.Uncounted
		state := session.TaskState{
			Session: r.task.Session, Role: roleDestination, Device: d.device.Name, Running: err == nil, Counters: counters,
		}
		if err != nil {
			state.Error = err.Error()
		}
		states = append(states, state)
	}
	return states
}

// close takes the program off and gives out what is left.
func (d *destinationModule) close() error {
	err := d.detach()
	d.finish()
	return errors.Join(err, d.probe.Close(), d.owner.Close())
}

func (d *destinationModule) detach() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.probe.Detach()
}

// failure is why rows or records are missing.
func (d *destinationModule) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return errors.Join(d.err, d.copying)
}

// leave lets the program on the device and gives out what was read.
func (d *destinationModule) leave() error {
	d.finish()
	return errors.Join(d.probe.Leave(), d.owner.Close())
}

// finish ends the reading and gives out what is left.
func (d *destinationModule) finish() {
	close(d.ending)
	d.ended.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.take()
	for _, r := range d.readers {
		d.emit(r, now)
	}
}

// clearLeftovers takes destination programs off that were left on devices where
// nothing is to be read any more. Where something is, and cannot be at present, the
// program still restores packets.
func (r *Runner) clearLeftovers() {
	wanted, _ := place(r.assignment)
	interfaces, err := net.Interfaces()
	if err != nil {
		r.options.Log.Warn("list interfaces", "error", err)
		return
	}
	for _, i := range interfaces {
		if len(wanted[i.Name].destinations) != 0 {
			continue
		}
		device, err := hook.Find(i.Name)
		if err != nil {
			continue // not a device that can carry a program
		}
		owner, err := hook.Own(roleDestination, device)
		if err != nil {
			continue // somebody reads there by hand
		}
		r.report(roleDestination, i.Name, errors.Join(destination.Clear(device), owner.Close()))
	}
}
