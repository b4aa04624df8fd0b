package runner

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"pillion.dev/agent/validation"
	"pillion.dev/internal/clock"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/router"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// localFollowEvery is how often the device of a local task is checked.
const localFollowEvery = time.Second

// LocalSource is a source that runs on one device without a session.
type LocalSource struct {
	Device string
	source.Settings
	// Lease is how long the program keeps marking without this process;
	// source.Forever for no limit.
	Lease time.Duration
	// Path is called by Run for each change in what path validation has found.
	Path func(validation.Path) error
	// Hidden is called by Run when packets no longer reach the program, with what hides it, and with
	// an empty text when they do again; nil: it is not.
	Hidden func(text string) error
	// Blocks is called by Run for what was sent in blocks that are over.
	Blocks func([]block.Count) error
	// Sent is called by Run at every interval, and by Stop, for what flows have sent since; nil
	// for a source of which nobody asks.
	Sent func([]source.Sent) error
}

// Source runs a LocalSource.
type Source struct {
	mu      sync.Mutex
	running *deviceSource
	task    sourceTask
	paths   chan validation.Path // changes that Run has not reported yet
	path    func(validation.Path) error
	hidden  func(text string) error
	blocks  func([]block.Count) error
	sent    func([]source.Sent) error
}

// OpenSource attaches the program and starts its lease.
func OpenSource(local LocalSource) (*Source, error) {
	if err := checkDevice(local.Device); err != nil {
		return nil, err
	}
	if len(local.Rules) == 0 { // unlike a source without rules, this can change
		local.Rules = []fivetuple.Filter{{}}
	}
	s := &Source{task: sourceTask{local: &local.Settings}, paths: make(chan validation.Path, 64), path: local.Path, hidden: local.Hidden, blocks: local.Blocks, sent: local.Sent}
	s.task.pathFound = s.pathFound
	s.task.Lease = session.Duration(local.Lease)
	running, err := openSource(local.Device, []sourceTask{s.task}, Options{Log: slog.New(slog.DiscardHandler)}, nil)
	if err != nil {
		return nil, err
	}
	s.running = running
	if running.renew(session.Pulse{}); running.err != nil {
		return nil, errors.Join(running.err, running.close())
	}
	return s, nil
}

// pathFound passes a change to Run. If there are too many Run learns only some; Paths has
// all.
func (s *Source) pathFound(path validation.Path) {
	select {
	case s.paths <- path:
	default:
	}
}

// Paths returns what path validation has found.
func (s *Source) Paths() []validation.Path {
	if s.running.paths == nil {
		return nil
	}
	return s.running.paths.Paths()
}

// Rounds returns the round trips since the last call of flows that had any (source.Rounds).
func (s *Source) Rounds() ([]source.Round, error) { return s.running.probe.Rounds() }

// readSent passes on what flows have sent since the last call.
func (s *Source) readSent() error {
	if s.sent == nil {
		return nil
	}
	sent, err := s.running.probe.Sent()
	return errors.Join(err, s.sent(sent))
}

// checkDevice reports a missing device or missing privileges before anything changes.
func checkDevice(name string) error {
	if _, err := hook.Find(name); err != nil {
		return err
	}
	return hook.NeedRoot()
}

// Device is where the program is attached.
func (s *Source) Device() hook.Device { return s.running.device }

// Listener is the socket at hook.Address, through which other processes reach the source.
func (s *Source) Listener() *net.UnixListener { return s.running.owner.Listener() }

// Run follows changes of the device and renews the lease until the context ends. It
// calls show at every interval.
func (s *Source) Run(ctx context.Context, interval time.Duration, show func() error) error {
	renew := time.NewTicker(renewEvery(time.Duration(s.task.Lease)))
	defer renew.Stop()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	var blocks <-chan time.Time
	if every := s.running.probe.BlocksEvery(); every > 0 && s.blocks != nil {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		blocks = ticker.C
	}
	changes, err := hook.WatchDevices(ctx)
	if err != nil {
		return err
	}
	for {
		var err error
		select {
		case <-ctx.Done():
			return s.readBlocks()
		case <-changes:
			err = s.follow()
		case <-blocks:
			err = s.readBlocks()
		case <-renew.C:
			err = s.follow()
		case <-ticks.C:
			err = errors.Join(s.readSent(), show())
		case path := <-s.paths:
			err = s.path(path)
		}
		if err != nil {
			return err
		}
	}
}

// renewEvery allows two renewals to fail within a lease.
func renewEvery(lease time.Duration) time.Duration {
	if lease == source.Forever {
		return localFollowEvery
	}
	return max(min(lease/3, localFollowEvery), time.Millisecond)
}

func (s *Source) readBlocks() error {
	if s.blocks == nil {
		return nil
	}
	counts, _, err := s.running.probe.Blocks()
	if err != nil || len(counts) == 0 {
		return err
	}
	return s.blocks(counts)
}

func (s *Source) follow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.running.follow([]sourceTask{s.task}, session.Pulse{}); err != nil {
		return err
	}
	s.running.renew(session.Pulse{})
	hidden, changed, err := s.running.probe.Hidden(s.running.now().steady)
	if err == nil && changed && s.hidden != nil {
		err = s.hidden(hiddenText(hidden))
	}
	return errors.Join(s.running.err, err)
}

// Change changes how packets are marked, and which, while traffic flows: what a Policy has, and
// the rules. No packet sees half of it. After an error nothing has changed.
func (s *Source) Change(change func(*source.Settings) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	settings := *s.task.local
	if err := change(&settings); err != nil {
		return err
	}
	before := s.task.local
	s.task.local = &settings
	err := s.running.follow([]sourceTask{s.task}, session.Pulse{})
	if err != nil {
		s.task.local = before
		err = errors.Join(err, s.running.follow([]sourceTask{s.task}, session.Pulse{}))
	}
	return err
}

// Tally returns the program's counters.
func (s *Source) Tally() (source.Tally, error) { return s.running.probe.Tally() }

// Stop detaches the program from the device. Its counters can still be read.
func (s *Source) Stop() error {
	return errors.Join(s.running.paths.Close(), s.running.probe.Detach(), s.readSent(), s.running.probe.Sweep())
}

// Close stops the source and frees it.
func (s *Source) Close() error { return s.running.close() }

// LocalDestination is a destination that runs on one device without a session.
type LocalDestination struct {
	Device string
	destination.Settings
	Interval    time.Duration
	Granularity destination.Granularity
	// Rows receives the rows of each interval, Record each packet if Settings.Records is
	// set. Neither is called concurrently with itself or the other.
	Rows   func(LocalRows) error
	Record func(*destination.Record) error
	// Hidden is LocalSource.Hidden; it is not called concurrently with the others.
	Hidden func(text string) error
}

// LocalRows are the rows of one interval, with the state at its end.
type LocalRows struct {
	Time time.Time
	Rows []destination.Row
	Hops []HopRow // if Settings.Traces is set
	// Blocks are what arrived in blocks of packets of one colour that are over.
	Blocks []block.Count
	Tally  destination.Tally
	Clock  clock.State
}

// Destination runs a LocalDestination.
type Destination struct {
	running *deviceDestination
	tasks   []destinationTask
}

// OpenDestination attaches the program. Run delivers its rows.
func OpenDestination(local LocalDestination) (*Destination, error) {
	if err := checkDevice(local.Device); err != nil {
		return nil, err
	}
	task := destinationTask{local: &local}
	task.Interval, task.Granularity = session.Duration(local.Interval), string(local.Granularity)
	task.Records, task.Hops = local.Records, local.Traces
	tasks := []destinationTask{task}
	running, err := openDestination(local.Device, tasks, Options{Log: slog.New(slog.DiscardHandler)}, present)
	if err != nil {
		return nil, err
	}
	if running.unanswered != nil {
		slog.Warn("the addresses of this host cannot be proven", "error", running.unanswered)
	}
	return &Destination{running, tasks}, nil
}

// Device is where the program is attached.
func (d *Destination) Device() hook.Device { return d.running.device }

// Run delivers rows and follows changes of the device until the context ends.
func (d *Destination) Run(ctx context.Context) error {
	d.running.start()
	return watch(ctx, func() error { return errors.Join(d.running.follow(d.tasks), d.running.failure()) })
}

// watch calls check regularly until the context ends or check returns an error.
func watch(ctx context.Context, check func() error) error {
	ticks := time.NewTicker(localFollowEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if err := check(); err != nil {
			return err
		}
	}
}

// Stop detaches the program from the device and delivers the last rows and records.
func (d *Destination) Stop() error {
	err := d.running.detach()
	d.running.finish()
	return errors.Join(err, d.running.failure())
}

// Tally returns the program's counters.
func (d *Destination) Tally() (destination.Tally, error) { return d.running.probe.Tally() }

// TraceTally returns what became of traces.
func (d *Destination) TraceTally() (destination.TraceTally, error) {
	return d.running.probe.TraceTally()
}

// Close frees the destination.
func (d *Destination) Close() error {
	return errors.Join(d.running.responder.Close(), d.running.probe.Close(), d.running.owner.Close())
}

// LocalRouter is a router profile without a session.
type LocalRouter struct {
	router.Options
	Interval time.Duration
	// Read receives the profile so far at the end of each interval, CoffeeBreak each break,
	// Record each packet if Options.Records is set. None is called concurrently with itself.
	Read        func(router.Snapshot) error
	CoffeeBreak func(router.Break) error
	Record      func(router.Record) error
}

// Router runs a LocalRouter.
type Router struct{ running *routerProfile }

// OpenRouter attaches the programs. Run delivers what they measure.
func OpenRouter(local LocalRouter) (*Router, error) {
	task := profileTask{local: &local}
	task.Interval = session.Duration(local.Interval)
	options := Options{Log: slog.New(slog.DiscardHandler), now: present}
	running, err := openRouter(local.Options, []profileTask{task}, options)
	if err != nil {
		return nil, err
	}
	return &Router{running}, nil
}

// Run delivers the profile until the context ends or delivery fails; Stop returns the error.
func (r *Router) Run(ctx context.Context) {
	r.running.start()
	_ = watch(ctx, r.running.failure)
}

// localSettleTime is settleTime for a profile by hand: no other session waits for it.
const localSettleTime = time.Second

// Stop ends the profile, waits until the packets inside the router have left, and
// delivers the last coffee breaks and records. Its counters can still be read.
func (r *Router) Stop() error {
	return errors.Join(r.running.finish(localSettleTime), r.running.failure())
}

// Snapshot reads the profile so far. It must not be called during Run.
func (r *Router) Snapshot() (router.Snapshot, error) { return r.running.probe.Snapshot() }

// RecordsLost counts the records dropped because the buffer was full.
func (r *Router) RecordsLost() uint64 { return r.running.probe.Lost() }

// CountCosts turns the kernel's measurement of the programs' run time on or off.
func (r *Router) CountCosts(on bool) error { return r.running.probe.CountCosts(on) }

// Close frees the profile.
func (r *Router) Close() error { return r.running.probe.Close() }
