// Package runner carries out the tasks of one host: it runs a source or a destination for
// each interface, and the points of package measure/point, each shared by the sessions that
// need it. A user may run a source, a destination or a router profile by hand, without a
// session: LocalSource, LocalDestination, LocalRouter.
//
// It receives assignments and pulses, and passes rows to a sink. It does not depend on
// where they come from and go to.
package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"pillion.dev/agent/doctor"
	"pillion.dev/agent/policy"
	"pillion.dev/agent/validation"
	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// Roles of a task.
const (
	roleSource      = "source"
	roleDestination = "destination"
)

// Sink takes a sample of a standard stream. The sample is reused afterwards.
type Sink func(schema *measure.Schema, sample measure.Sample)

// Options of a Runner.
type Options struct {
	Sink Sink
	Log  *slog.Logger
	// Points are measured independently of sessions; their lease is Forever.
	Points []session.PointTask
	// ValidatePaths marks packets to a peer only after path validation.
	ValidatePaths bool
	// ProveAddresses marks packets to a peer only while it proves its address, if the server
	// gives a key for that.
	ProveAddresses bool
	// Policy is what the host allows; nil: the default policy.
	Policy *policy.Policy

	now  func() moment
	keys *validation.Keyring
	self *Self
}

// Runner runs the current assignment.
type Runner struct {
	options Options
	now     func() moment

	mu           sync.Mutex
	assignment   session.Assignment
	sources      map[string]*deviceSource      // by device
	destinations map[string]*deviceDestination // by device
	points       map[string]Point              // by name
	faults       []session.TaskState           // tasks that could not be placed, or are refused
	allowed      []session.PointTask           // point tasks of the assignment that the policy allows
	pulse        session.Pulse
	// lastMessage is the time of the last message from the server, by the monotonic clock.
	lastMessage time.Duration
	self        Self
	// keys by which the host answers path probes.
	keys validation.Keyring
	// proved is signalled when the proof of an address has changed.
	proved       chan struct{}
	ownAddresses map[netip.Addr]bool
	// indexes are the devices of tasks, by the names that place has given them, and names the
	// present ones, by index.
	indexes map[string]int
	names   map[int]string
	// cleared: programs that an earlier process left on devices without a task are detached.
	cleared bool
}

// New returns a Runner without an assignment.
func New(options Options) *Runner {
	if options.Policy == nil {
		options.Policy = policy.Default()
	}
	r := &Runner{
		options: options, now: present,
		sources: map[string]*deviceSource{}, destinations: map[string]*deviceDestination{}, points: map[string]Point{},
		proved: make(chan struct{}, 1),
	}
	r.options.now = func() moment { return r.now() }
	r.options.keys, r.options.self = &r.keys, &r.self
	return r
}

// followEvery is the interval at which routes, interfaces and programs are checked.
const followEvery = 2 * time.Second

// Run follows changes of the host until the context ends.
func (r *Runner) Run(ctx context.Context) {
	ticks := time.NewTicker(followEvery)
	defer ticks.Stop()
	r.mu.Lock()
	r.runPoints()
	r.mu.Unlock()
	if clock.Injected() {
		go r.followInjected(ctx)
	}
	changes, err := hook.WatchDevices(ctx)
	if err != nil {
		r.options.Log.Warn("changes of interfaces are noticed late", "error", err)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changes:
			r.follow()
		case <-ticks.C:
			r.follow()
		case <-r.proved:
			r.mu.Lock()
			for _, s := range r.sources {
				s.err = s.choose(r.pulse)
			}
			r.mu.Unlock()
		}
	}
}

// follow applies changes of the host.
func (r *Runner) follow() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reconcile()
}

// wake has the sources choose their packets again.
func (r *Runner) wake() {
	select {
	case r.proved <- struct{}{}:
	default:
	}
}

// Apply makes the host run exactly the assignment, and returns the state of each task.
// Unchanged tasks are not interrupted. Lease is the first heartbeat under the assignment; nil: sources mark after
// the next one.
func (r *Runner) Apply(assignment session.Assignment, lease *session.Pulse) []session.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.assignment, r.lastMessage = assignment, r.now().steady
	r.setKeys()
	r.reconcile()
	if !r.cleared {
		r.cleared = true
		r.clearLeftovers()
	}
	for _, s := range r.sources {
		s.announceAll()
	}
	for _, s := range r.sources { // a task that runs marks from the first packet on
		s.awaitPaths()
	}
	if lease != nil {
		r.renew(*lease)
	}
	return r.states()
}

// Revision returns the revision of the current assignment.
func (r *Runner) Revision() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.assignment.Revision
}

// Pulse renews the leases of sources for the peers that are alive, and passes the clock
// errors of peers to destinations.
func (r *Runner) Pulse(pulse session.Pulse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew(pulse)
}

func (r *Runner) renew(pulse session.Pulse) {
	before := r.pulse
	r.pulse, r.lastMessage = pulse, r.now().steady
	for _, s := range r.sources {
		s.doubt(before, pulse)
	}
	for _, s := range r.sources { // all first, since renew waits for the tests
		s.announce(pulse)
	}
	for _, s := range r.sources {
		s.renew(pulse)
	}
	for _, d := range r.destinations {
		d.setClocks(pulse)
	}
}

// States returns the state of each task.
func (r *Runner) States() []session.TaskState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states()
}

// Paths returns what path validation has found about the paths of all sources.
func (r *Runner) Paths() []doctor.Path {
	r.mu.Lock()
	defer r.mu.Unlock()
	var paths []doctor.Path
	for _, device := range slices.Sorted(maps.Keys(r.sources)) {
		if s := r.sources[device]; s.paths != nil {
			for _, path := range s.paths.Paths() {
				paths = append(paths, doctor.Path{Device: device, Path: path})
			}
		}
	}
	return paths
}

func (r *Runner) states() []session.TaskState {
	states := slices.Clone(r.faults)
	for _, device := range slices.Sorted(maps.Keys(r.sources)) {
		states = append(states, r.sources[device].states()...)
	}
	for _, device := range slices.Sorted(maps.Keys(r.destinations)) {
		states = append(states, r.destinations[device].states()...)
	}
	return append(states, r.pointStates()...)
}

// Cost returns the cost of the running programs, if the kernel measures it.
func (r *Runner) Cost() (sum hook.Cost, counted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	add := func(cost hook.Cost, ok bool, err error) {
		if err != nil {
			r.options.Log.Warn("read cost of probes", "error", err)
		}
		sum.Time += cost.Time
		sum.Runs += cost.Runs
		counted = counted || ok
	}
	for _, s := range r.sources {
		add(s.probe.Cost())
	}
	for _, d := range r.destinations {
		add(d.probe.Cost())
	}
	for _, p := range r.points {
		if costly, ok := p.(interface {
			Cost() (hook.Cost, bool, error)
		}); ok {
			add(costly.Cost())
		}
	}
	return sum, counted
}

// Close stops the sources and all reading. Destination programs stay attached, so that
// marked packets in transit are still restored; a later Runner whose assignment does not
// include them detaches them.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, s := range r.sources {
		err = errors.Join(err, s.close())
	}
	for _, d := range r.destinations {
		err = errors.Join(err, d.leave())
	}
	for _, p := range r.points {
		err = errors.Join(err, p.Close())
	}
	clear(r.points)
	clear(r.sources)
	clear(r.destinations)
	return err
}

// reconcile makes the host run the assignment: it stops sources first, then starts and
// stops destinations and points, then starts sources.
func (r *Runner) reconcile() {
	r.learnAddresses()
	devices := r.placed()
	r.rename()
	for _, device := range slices.Collect(maps.Keys(r.sources)) {
		if len(devices[device].sources) == 0 {
			r.report(roleSource, device, r.sources[device].close())
			delete(r.sources, device)
		}
	}
	for _, device := range slices.Sorted(maps.Keys(devices)) {
		if tasks := devices[device].destinations; len(tasks) != 0 {
			r.runDestination(device, tasks)
		}
	}
	for _, device := range slices.Collect(maps.Keys(r.destinations)) {
		if len(devices[device].destinations) == 0 {
			r.report(roleDestination, device, r.destinations[device].close())
			delete(r.destinations, device)
		}
	}
	r.runPoints()
	for _, device := range slices.Sorted(maps.Keys(devices)) {
		if tasks := devices[device].sources; len(tasks) != 0 {
			r.runSource(device, tasks)
		}
	}
	slices.SortFunc(r.faults, func(a, b session.TaskState) int {
		return cmp.Or(cmp.Compare(a.Session, b.Session), cmp.Compare(a.Role, b.Role))
	})
}

func (r *Runner) runSource(device string, tasks []sourceTask) {
	if !r.options.ProveAddresses {
		for i := range tasks {
			tasks[i].proofs = nil
		}
	}
	s := r.sources[device]
	if s != nil && !s.fits(tasks) {
		r.report(roleSource, device, s.close())
		delete(r.sources, device)
		s = nil
	}
	var err error
	if s == nil {
		if s, err = openSource(device, tasks, r.options, r.wake); err == nil {
			r.sources[device] = s
		}
	}
	if err == nil {
		err = s.follow(tasks, r.pulse)
	}
	if err != nil {
		r.options.Log.Warn("run source", "device", device, "error", err)
		for _, task := range tasks {
			r.fail(roleSource, task.Session, device, err)
		}
		if s != nil {
			r.report(roleSource, device, s.close())
			delete(r.sources, device)
		}
	}
}

// runDestination runs the destination of a device.
func (r *Runner) runDestination(device string, tasks []destinationTask) {
	d := r.destinations[device]
	var err error
	if d == nil {
		if d, err = openDestination(device, tasks, r.options, r.now); err == nil {
			d.setClocks(r.pulse)
			d.start()
			r.destinations[device] = d
		}
	} else if err = d.follow(tasks); err != nil {
		// Sources keep marking until they are notified: the program keeps restoring.
		r.report(roleDestination, device, d.leave())
		delete(r.destinations, device)
		r.cleared = false
	}
	if err != nil {
		r.options.Log.Warn("run destination", "device", device, "error", err)
		for _, task := range tasks {
			r.fail(roleDestination, task.Session, device, err)
		}
	}
}

func (r *Runner) fail(role, name, device string, err error) {
	r.faults = append(r.faults, session.TaskState{Session: name, Role: role, Device: device, Error: fmt.Sprint(err)})
}

func (r *Runner) report(role, device string, err error) {
	if err != nil {
		r.options.Log.Warn("end probe", "role", role, "device", device, "error", err)
	}
}
