package runner

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"pillion.dev/agent/validation"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// deviceSource marks the packets of all sessions on one device, each session's packets as its task says.
type deviceSource struct {
	device hook.Device
	name   atomic.Pointer[string] // of the device, for those that do not hold the lock of the runner
	owner  *hook.Owner
	probe  *source.Source
	tasks  []sourceTask
	room   room
	// before are, by session, the counters of the device when it began; none of those with which the program was loaded.
	before map[string]baseline
	flows  int // size of the table
	// pathsRoom is the size of the table of paths.
	pathsRoom int
	// chosen is how packets are marked now.
	chosen choice
	// counted is what became of the packets that are marked as each session asks. It is reported
	// once policies have differed.
	counted  map[string]source.PolicyTally
	differed bool
	// last is what the policies in chosen had counted when counted was brought up to date.
	last []source.PolicyTally
	// resume are sessions whose marks will no longer carry tags, and when they are marked again,
	// by the monotonic clock.
	resume map[string]time.Duration
	// paths validates the paths of packets; nil if that is switched off.
	paths *validation.Prober
	// validated: encodings are used only on paths that they arrive on. Otherwise paths, if
	// there, proves addresses only.
	validated bool
	announced []validation.Peer
	// leased are the sessions with a peer that was alive at some heartbeat, begun those whose source has been
	// reported to run.
	leased, begun map[string]bool
	awaited       time.Time // when marking no longer waits for the validation of these
	// pathFound is called when the state of a path has changed; nil: it is logged.
	pathFound func(validation.Path)
	// proved is called when the proof of an address has changed; self is the runner's. Either may be nil.
	proved func()
	self   *Self
	log    *slog.Logger
	now    func() moment
	swept  time.Time
	sent   *sentReader // nil without a session
	err    error       // of the last renewal
}

func openSource(name string, tasks []sourceTask, options Options, proved func()) (*deviceSource, error) {
	device, err := hook.Find(name)
	if err != nil {
		return nil, err
	}
	settings, err := settingsOf(tasks)
	if err != nil {
		return nil, err
	}
	settings.ValidatePaths = settings.ValidatePaths || options.ValidatePaths
	owner, err := hook.Own(roleSource, device)
	if err != nil {
		return nil, err
	}
	probe, err := source.Open(device, settings)
	if err != nil {
		return nil, errors.Join(err, owner.Close())
	}
	s := &deviceSource{
		device: device, owner: owner, probe: probe, tasks: tasks, flows: settings.Flows, pathsRoom: settings.Paths, validated: settings.ValidatePaths,
		resume: map[string]time.Duration{}, leased: map[string]bool{}, begun: map[string]bool{},
		pathFound: tasks[0].pathFound, proved: proved, self: options.self, log: options.Log, now: options.now,
	}
	s.name.Store(&device.Name)
	if s.now == nil {
		s.now = present
	}
	if tasks[0].local == nil {
		s.sent = newSentReader(device.Name, probe.Sent, probe.Blocks, options)
		s.sent.readRounds(probe.Rounds)
	}
	if settings.ValidatePaths || slices.ContainsFunc(tasks, func(t sourceTask) bool { return len(t.proofs) != 0 }) {
		if err := s.validatePaths(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

// settingsOf returns the settings that a source starts with. Sources of sessions mark nothing at first.
func settingsOf(tasks []sourceTask) (source.Settings, error) {
	if local := tasks[0].local; local != nil {
		return *local, nil
	}
	p, err := policyOf(tasks[0].Policy())
	if err != nil {
		return source.Settings{}, err
	}
	return source.Settings{Policy: p, Flows: flowsOf(tasks), Paths: pathsOf(tasks), StartEmpty: true}, nil
}

// flowsOf returns the size of the table of flows: the largest that a session asks for.
func flowsOf(tasks []sourceTask) (flows int) {
	for _, task := range tasks {
		flows = max(flows, cmp.Or(int(task.Flows), source.DefaultFlows))
	}
	return flows
}

// pathsPerPeer is how many paths there are to an address of a peer: encodings that may be tried.
const pathsPerPeer = 4

// pathsOf returns the size of the table of paths, a power of two, so that it seldom changes.
func pathsOf(tasks []sourceTask) int {
	peers := 0
	for _, task := range tasks {
		peers = max(peers, len(task.peers))
	}
	return max(source.DefaultPaths, 1<<bits.Len(uint(pathsPerPeer*peers)))
}

// fits reports whether the running source can serve these tasks.
func (s *deviceSource) fits(tasks []sourceTask) bool {
	if s.tasks[0].local == nil && (flowsOf(tasks) > s.flows || pathsOf(tasks) > s.pathsRoom) {
		return false
	}
	return s.paths != nil || !slices.ContainsFunc(tasks, func(t sourceTask) bool { return len(t.proofs) != 0 })
}

// follow applies changes of the tasks and of the device.
func (s *deviceSource) follow(tasks []sourceTask, pulse session.Pulse) error {
	if err := s.followDevice(); err != nil {
		return err
	}
	s.hold(tasks)
	if err := s.rebase(tasks); err != nil {
		return err
	}
	s.tasks = tasks
	over := func(name string, _ bool) bool {
		return !slices.ContainsFunc(tasks, func(t sourceTask) bool { return t.Session == name })
	}
	maps.DeleteFunc(s.leased, over)
	maps.DeleteFunc(s.begun, over)
	s.sent.assign(tasks)
	return s.choose(pulse)
}

// rebase notes what the device has counted before sessions that begin now.
func (s *deviceSource) rebase(tasks []sourceTask) error {
	before := map[string]baseline{}
	for _, task := range tasks {
		name := task.Session
		if slices.ContainsFunc(s.tasks, func(t sourceTask) bool { return t.Session == name }) {
			before[name] = s.before[name]
			continue
		}
		tally, err := s.probe.Tally()
		if err != nil {
			return err
		}
		before[name] = counters(tally)
	}
	s.before = before
	return nil
}

func (s *deviceSource) followDevice() error {
	now, err := s.device.Now()
	if err != nil {
		return err
	}
	if now != s.device {
		if err := s.probe.Follow(now); err != nil {
			return err
		}
		s.device = now
		s.name.Store(&now.Name)
		s.sent.rename(now.Name)
	}
	if present, err := s.probe.Present(); err != nil {
		return err
	} else if !present {
		return fmt.Errorf("check device %q: the program is no longer there", s.device.Name)
	}
	if err := s.probe.FollowConnections(s.now().steady); err != nil {
		return err
	}
	if time.Since(s.swept) < sweepEvery {
		return nil
	}
	s.swept = time.Now()
	s.sent.collect()
	return s.probe.Sweep()
}

const sweepEvery = 5 * time.Second

// renew extends the lease of the program for the peers that are alive. Without any, the
// lease expires.
func (s *deviceSource) renew(pulse session.Pulse) {
	if s.err = s.choose(pulse); s.err == nil && (len(s.chosen.rules) != 0 || s.tasks[0].local != nil) {
		s.err = s.probe.Renew(s.lease())
	}
	for _, task := range s.tasks {
		if s.err == nil && len(alive(task, pulse)) > 0 {
			s.leased[task.Session] = true
		}
	}
}

// waits says what the first packets of a session wait for, given whether some path is pending; empty: they are
// marked, or it is known that they may not be. A session that has begun does not wait again.
func (s *deviceSource) waits(name string, pending bool) string {
	switch {
	case s.begun[name]:
	case !s.leased[name]:
		return "marks no packets yet: the server has not said that a destination is ready"
	case pending:
		return "marks no packets yet: paths are being validated"
	default:
		s.begun[name] = true
	}
	return ""
}

// lease is the shortest of the tasks.
func (s *deviceSource) lease() time.Duration {
	lease := time.Duration(s.tasks[0].Lease)
	for _, task := range s.tasks {
		lease = min(lease, time.Duration(task.Lease))
	}
	return lease
}

// anyAlive reports whether any peer is alive, or one was.
func (s *deviceSource) anyAlive(pulse session.Pulse) bool {
	return len(s.leased) > 0 || slices.ContainsFunc(s.tasks, func(t sourceTask) bool { return len(alive(t, pulse)) > 0 })
}

func alive(task sourceTask, pulse session.Pulse) []netip.Addr {
	var addresses []netip.Addr
	for address, agent := range task.peers {
		if slices.Contains(pulse.Alive[task.Session], agent) {
			addresses = append(addresses, address)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return addresses
}

// counters returns what the program of the device has counted, by name.
func counters(tally source.Tally) map[string]uint64 {
	all := map[string]uint64{
		"seen": tally.Seen, "matched": tally.Matched, "marked": tally.Marked,
		"bytes_added": tally.BytesAdded, "flows_evicted": tally.FlowsEvicted,
	}
	for reason, n := range tally.Skipped {
		if n != 0 {
			all["skipped_"+reason] = n
		}
	}
	connections := tally.Connections
	for name, n := range map[string]uint64{
		"counted":     tally.Counted,
		"connections": connections.Marked, "connections_paused": connections.Paused,
		"connections_stopped": connections.Stopped, "connections_without_acks": connections.WithoutAcks,
		"connections_avoided": connections.Avoided, "connection_segments_full": connections.Full, "connection_callbacks_cleared": connections.Cleared,
		"round_trip_flows_full": tally.EchoesFull,
	} {
		if n != 0 {
			all[name] = n
		}
	}
	return all
}

func (s *deviceSource) states() []session.TaskState {
	pending := s.paths != nil && s.paths.Pending() // first: none is counted as pending afterwards
	hidden, _, unsure := s.probe.Hidden(s.now().steady)
	hidden = hiddenText(hidden)
	tally, uncounted := s.probe.Tally()
	err := errors.Join(s.err, uncounted, unsure)
	current := map[string]uint64{}
	s.countPaths(current)
	limit := joinLimits(hidden, s.room.limit(tally), tally.Connections.Limit, s.countAddresses(current), s.pathLimit())
	err = errors.Join(err, s.collect())
	var states []session.TaskState
	for _, task := range s.tasks {
		deferred, unread := s.sent.state(task.Session)
		state := session.TaskState{
			Session: task.Session, Role: roleSource, Device: s.device.Name, Running: err == nil, Counters: counters(tally),
		}
		if uncounted == nil {
			s.before[task.Session].subtract(state.Counters)
		}
		maps.Copy(state.Counters, current)
		state.Limit = joinLimits(limit, s.chosen.limits[task.Session], overlapLimit(task, tally), task.limit)
		if s.differed {
			counted := s.counted[task.Session]
			state.Counters["policy_marked"], state.Counters["policy_not_sampled"] = counted.Marked, counted.NotSampled
		}
		if deferred != 0 {
			state.Counters["sent_rows_deferred"] = deferred
		}
		if dropped := s.sent.droppedRounds(task.Session); dropped != 0 {
			state.Counters["round_trips_dropped"] = dropped
		}
		if missed := s.sent.blocksMissed(task.Session); missed != 0 {
			state.Counters["sent_blocks_missed"] = missed
		}
		if s.holds(task.Session) {
			unread = errors.Join(errAuthenticationChanges, unread)
		}
		if why := s.waits(task.Session, pending); why != "" {
			state.Running, state.Limit = false, joinLimits(why, state.Limit)
		}
		if failed := errors.Join(err, unread); failed != nil {
			state.Running, state.Error = false, failed.Error()
		}
		states = append(states, state)
	}
	return states
}

func (s *deviceSource) close() error {
	return errors.Join(s.paths.Close(), s.probe.Detach(), s.sent.close(), s.probe.Close(), s.owner.Close())
}
