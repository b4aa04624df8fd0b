package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"pillion.dev/agent/validation"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// deviceSource marks packets on one device for all sessions there. Their tasks may differ
// only in peers and filters.
type deviceSource struct {
	device hook.Device
	owner  *hook.Owner
	probe  *source.Source
	tasks  []sourceTask
	// chosen are the last arguments of SetRules.
	chosen choice
	// paths validates the paths of packets; nil if that is switched off.
	paths     *validation.Prober
	encodings wire.EncodingList
	modules   wire.Module
	tagged    bool
	// tested are the encodings whose paths are validated; none, where only addresses are.
	tested    wire.EncodingList
	announced []validation.Peer
	pulsed    bool      // some peer was alive
	awaited   time.Time // when marking no longer waits for the validation of these
	// pathFound is called when the state of a path has changed; nil: it is logged.
	pathFound func(validation.Path)
	// proved is called when the proof of an address has changed, self is that of the runner;
	// either may be nil.
	proved func()
	self   *Self
	log    *slog.Logger
	swept  time.Time
	err    error // of the last renewal
}

type choice struct {
	rules   []fivetuple.Filter
	targets []netip.Addr
}

var errDisagree = errors.New("sessions on one interface must agree on modules, encoding, time stamps, authentication and sampling")

func openSource(name string, tasks []sourceTask, options Options, proved func()) (*deviceSource, error) {
	device, err := hook.Find(name)
	if err != nil {
		return nil, err
	}
	if err := agreed(tasks); err != nil {
		return nil, err
	}
	settings, err := tasks[0].settings()
	if err != nil {
		return nil, err
	}
	if settings.Tagged && tasks[0].local == nil {
		settings.Keys = pairKeys(tasks)
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
		device: device, owner: owner, probe: probe, tasks: tasks, encodings: settings.Encodings, modules: settings.Modules, tagged: settings.Tagged,
		pathFound: tasks[0].pathFound, proved: proved, self: options.self, log: options.Log,
	}
	if settings.ValidatePaths {
		s.tested = settings.Encodings
	}
	if settings.ValidatePaths || slices.ContainsFunc(tasks, func(t sourceTask) bool { return len(t.proofs) != 0 }) {
		if err := s.validatePaths(); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (task *sourceTask) settings() (source.Settings, error) {
	if task.local != nil {
		return *task.local, nil
	}
	modules, err := wire.ParseModule(strings.Join(task.Modules, ","))
	if err != nil {
		return source.Settings{}, err
	}
	encodings, err := wire.ParseEncodings(task.Encoding)
	if err != nil {
		return source.Settings{}, err
	}
	return source.Settings{
		Modules: modules, Encodings: encodings, StampEvery: task.StampEvery, Sparse: task.SparseMarks, Tagged: task.Authenticated, StartEmpty: true, Sampling: sampling(task.Sampling),
	}, nil
}

func sampling(s session.Sampling) source.Sampling {
	return source.Sampling{Every: s.Every, Random: s.Random, MinGap: time.Duration(s.MinGap)}
}

// agree reports whether one program can serve both tasks.
func agree(a, b sourceTask) bool {
	return slices.Equal(a.Modules, b.Modules) && a.Encoding == b.Encoding && a.StampEvery == b.StampEvery &&
		a.SparseMarks == b.SparseMarks && a.Authenticated == b.Authenticated && a.Sampling == b.Sampling
}

// agreed reports which of the tasks cannot share a program.
func agreed(tasks []sourceTask) error {
	for _, task := range tasks[1:] {
		if !agree(task, tasks[0]) {
			return fmt.Errorf("%w: %q and %q do not", errDisagree, tasks[0].Session, task.Session)
		}
	}
	return nil
}

// fits reports whether the running program can serve these tasks.
func (s *deviceSource) fits(tasks []sourceTask) bool {
	running := s.tasks[0]
	for _, task := range tasks {
		if len(task.proofs) != 0 && s.paths == nil {
			return false
		}
		task.Sampling = running.Sampling // changes while it runs
		if !agree(task, running) {
			return false
		}
	}
	return true
}

// follow applies changes of the tasks and of the device.
func (s *deviceSource) follow(tasks []sourceTask, pulse session.Pulse) error {
	if err := agreed(tasks); err != nil {
		return err
	}
	if err := s.followDevice(); err != nil {
		return err
	}
	if s.tasks[0].Sampling != tasks[0].Sampling {
		if err := s.probe.Sample(sampling(tasks[0].Sampling)); err != nil {
			return err
		}
	}
	if tasks[0].Authenticated {
		if err := s.probe.SetKeys(pairKeys(tasks)); err != nil {
			return err
		}
	}
	s.tasks = tasks
	return s.choose(pulse)
}

func (s *deviceSource) followDevice() error {
	now, err := hook.Find(s.device.Name)
	if err != nil {
		return err
	}
	if now.Index != s.device.Index {
		return fmt.Errorf("follow device %q: it was replaced", s.device.Name)
	}
	if now != s.device {
		if err := s.probe.Follow(now); err != nil {
			return err
		}
		s.device = now
	}
	if present, err := s.probe.Present(); err != nil {
		return err
	} else if !present {
		return fmt.Errorf("check device %q: the program is no longer there", s.device.Name)
	}
	if time.Since(s.swept) < sweepEvery {
		return nil
	}
	s.swept = time.Now()
	return s.probe.Sweep()
}

const sweepEvery = 5 * time.Second

// renew extends the lease of the program for the peers that are alive. Without any, the
// lease expires.
func (s *deviceSource) renew(pulse session.Pulse) {
	if s.err = s.choose(pulse); s.err != nil || len(s.chosen.rules) == 0 && s.tasks[0].local == nil {
		return
	}
	lease := time.Duration(s.tasks[0].Lease)
	for _, task := range s.tasks {
		lease = min(lease, time.Duration(task.Lease))
	}
	s.err = s.probe.Renew(lease)
}

// choose restricts the program to the peers that are alive and whose addresses are proven. The rules of a local task are
// fixed.
func (s *deviceSource) choose(pulse session.Pulse) error {
	if s.tasks[0].local != nil {
		return nil
	}
	if len(s.announced) == 0 || s.anyAlive(pulse) { // else the first heartbeat has not come yet
		s.announce(pulse)
		s.awaitPaths()
	}
	wanted, err := s.choice(pulse)
	if err != nil {
		return err
	}
	if reflect.DeepEqual(wanted, s.chosen) {
		return nil
	}
	if err := s.probe.SetRules(wanted.rules, wanted.targets); err != nil {
		return err
	}
	s.chosen = wanted
	return nil
}

// choice returns a rule for each filter and address if they fit, and otherwise the filters,
// if all sessions have the same ones, and a table of addresses.
func (s *deviceSource) choice(pulse session.Pulse) (choice, error) {
	var c choice
	same := true
	for _, task := range s.tasks {
		addresses := s.admitted(task, pulse)
		c.targets = append(c.targets, addresses...)
		same = same && slices.Equal(task.Filters, s.tasks[0].Filters)
		var prefixes []netip.Prefix
		for _, a := range addresses {
			prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
		}
		if len(prefixes) == 0 {
			continue
		}
		rules, err := fivetuple.Combine(task.rules, prefixes)
		if err != nil && !errors.Is(err, fivetuple.ErrFilter) {
			return choice{}, err
		}
		c.rules = append(c.rules, rules...)
	}
	if len(c.rules) <= source.RulesMax {
		c.targets = nil
		return c, nil
	}
	if !same {
		return choice{}, fmt.Errorf("choose packets on %q: %d filters and peers are more than %d, and the sessions' filters differ",
			s.device.Name, len(c.rules), source.RulesMax)
	}
	c.rules = s.tasks[0].rules
	if len(c.rules) == 0 {
		c.rules = []fivetuple.Filter{{}}
	}
	return c, nil
}

// anyAlive reports whether any peer is alive, or one was.
func (s *deviceSource) anyAlive(pulse session.Pulse) bool {
	s.pulsed = s.pulsed || slices.ContainsFunc(s.tasks, func(t sourceTask) bool { return len(alive(t, pulse)) > 0 })
	return s.pulsed
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

func (s *deviceSource) states() []session.TaskState {
	tally, err := s.probe.Tally()
	err = errors.Join(s.err, err)
	counters := map[string]uint64{
		"seen": tally.Seen, "matched": tally.Matched, "marked": tally.Marked,
		"bytes_added": tally.BytesAdded, "flows_evicted": tally.FlowsEvicted,
	}
	for reason, n := range tally.Skipped {
		if n != 0 {
			counters["skipped_"+reason] = n
		}
	}
	connections := tally.Connections
	for name, n := range map[string]uint64{
		"counted":     tally.Counted,
		"connections": connections.Marked, "connections_paused": connections.Paused,
		"connections_stopped": connections.Stopped, "connections_without_acks": connections.WithoutAcks,
		"connections_avoided": connections.Avoided, "connection_segments_full": connections.Full,
	} {
		if n != 0 {
			counters[name] = n
		}
	}
	s.countPaths(counters)
	limit := joinLimits(connections.Limit, s.countAddresses(counters), s.pathLimit())
	var states []session.TaskState
	for _, task := range s.tasks {
		state := session.TaskState{
			Session: task.Session, Role: roleSource, Device: s.device.Name, Running: err == nil, Limit: limit, Counters: counters,
		}
		if err != nil {
			state.Error = err.Error()
		}
		states = append(states, state)
	}
	return states
}

func (s *deviceSource) close() error {
	return errors.Join(s.paths.Close(), s.probe.Close(), s.owner.Close())
}
