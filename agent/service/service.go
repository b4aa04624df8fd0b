// Package service is the agent of a host that has joined a server: it maintains the
// host's identity, has the loader run what the server assigns, samples the host itself, and
// sends everything through the spool.
//
// It runs without privileges: Run starts it as another user in a process of its own, and
// serves it the privileged part, package loader. RunInOne has both in one process.
//
// It contains no probe and no protocol but connects the rooms that do. Without the server
// it keeps running, within the limits of the spool; only sources stop, by their leases.
package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/agent/host"
	"pillion.dev/agent/identity"
	"pillion.dev/agent/kubernetes"
	"pillion.dev/agent/loader"
	"pillion.dev/agent/policy"
	"pillion.dev/agent/runner"
	"pillion.dev/agent/spool"
	"pillion.dev/bus"
	"pillion.dev/internal/store"
	"pillion.dev/internal/version"
	"pillion.dev/measure"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

type service struct {
	config   Config
	log      *slog.Logger
	ctx      context.Context
	started  time.Time
	instance string

	identity *identity.Identity
	spool    *spool.Spool
	streams  *streams
	loader   privileged
	reserved *reserved
	sampler  *host.Sampler
	bus      *bus.Agent
	statuses statuses
	status   atomic.Pointer[loader.Status] // as of the last report
	// applications of this host that report by OML's protocol.
	applications *applications

	// pods is nil unless pods of this node are named; naming is held while names are sent.
	pods   *kubernetes.Watcher
	naming sync.Mutex

	linked chan struct{} // signalled when the server is connected
	ask    chan struct{} // signalled when the agent's standing is in question
	rename chan struct{} // signalled when the server may not know the names of pods
	joined sync.Once
	ready  func()
}

// privileged is a loader, in this process or in another one.
type privileged interface {
	Serve(ctx context.Context, request []byte) ([]byte, error)
	Pulse(text []byte)
	Tell(self runner.Self)
	Status() (loader.Status, error)
	Token() ([]byte, error)
	Close() error
}

// RunInOne joins the server, if necessary, and runs in one process until the context ends. It
// calls ready, if set, once the server has registered the agent.
func RunInOne(ctx context.Context, config Config, log *slog.Logger, ready func()) error {
	config, err := config.complete()
	if err != nil {
		return err
	}
	allowed, err := policy.Open(config.Policy)
	if err != nil {
		return err
	}
	return run(ctx, config, log, ready, func(s *service) (privileged, error) {
		options, err := config.privileged(s.streams.inject, allowed, log)
		return loader.New(options), err
	})
}

// run is the unprivileged part. Load starts the privileged one when the streams are open.
func run(ctx context.Context, config Config, log *slog.Logger, ready func(), load func(*service) (privileged, error)) error {
	s := &service{
		config: config, log: log, started: time.Now(), instance: rand.Text(),
		linked: make(chan struct{}, 1), ask: make(chan struct{}, 1), rename: make(chan struct{}, 1), ready: ready,
	}
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	s.ctx = own
	if err := s.open(ctx, load); err != nil {
		if s.identity == nil && ctx.Err() != nil { // stopped while it joins, which has been logged
			err = nil
		}
		return errors.Join(err, s.close())
	}
	s.run(own)
	return s.close()
}

func (s *service) open(ctx context.Context, load func(*service) (privileged, error)) (err error) {
	if s.identity, err = join(ctx, s.config, s.log); err != nil {
		return err
	}
	s.applications = &applications{}
	if openBackend != nil {
		backend, err := openBackend(s.config.Folder, s.config.OMLShared, s.log)
		if err != nil {
			return err
		}
		s.applications.backend = backend
	}
	for _, text := range store.Notices(s.config.Folder) {
		s.log.Warn("the state of the agent is damaged", "what", text)
	}
	own, reported := s.config.shares()
	if s.spool, err = s.openSpool(ctx, "spool", own); err != nil {
		return err
	}
	if s.applications.spool, err = s.openSpool(ctx, "spool-applications", reported); err != nil {
		return err
	}
	points, err := s.config.hostPoints()
	if err != nil {
		return err
	}
	wanted := append(slices.Clone(points), loader.CapturePoints(s.config.Capture)...)
	if s.streams, err = openStreams(s.spool.Put, s.applications.spool.Put, wanted, s.config.Streams, s.log); err != nil {
		return err
	}
	if err := s.openApplications(); err != nil {
		return err
	}
	if s.loader, err = load(s); err != nil {
		return err
	}
	s.statuses.ask = s.loader.Status
	s.openPods()
	points = slices.DeleteFunc(slices.Clone(points), func(p *measure.Schema) bool { return p == &measure.Clock })
	s.sampler = &host.Sampler{
		Interval: s.config.HostInterval, Sink: s.streams.injectAll, Spool: s.spooled, Probe: s.probeCost, Log: s.log,
		Points: points, OtherClock: true, Other: s.loaderUsage, Processes: s.config.Processes,
	}
	s.bus, err = bus.ConnectAgent(s.ctx, bus.AgentOptions{
		URL: s.busURLs(), InOrder: s.config.Bus != "", TLS: s.identity.TLS(), Name: s.identity.Name(), Log: s.log, Changed: s.changed,
	})
	if err != nil {
		return err
	}
	s.reserved = &reserved{urls: s.servers, connected: s.bus.Remote, changed: s.tell, log: s.log}
	s.reserved.refresh(s.ctx)
	return errors.Join(s.bus.Serve(s.loader.Serve), s.bus.Pulse(s.loader.Pulse))
}

// tell tells the privileged part what this one knows.
func (s *service) tell(addresses map[netip.Addr]string) {
	s.loader.Tell(runner.Self{Agent: s.identity.Name(), Reserved: addresses})
}

// servers are the URLs by which this agent reaches the server.
func (s *service) servers() []string {
	return append(strings.Split(s.busURLs(), ","), strings.Split(s.identity.Server(), ",")...)
}

// busURLs are the URLs in the configuration, or the ones that the server has named.
func (s *service) busURLs() string { return cmp.Or(s.config.Bus, s.identity.Bus()) }

// run runs all parts until the context ends.
func (s *service) run(ctx context.Context) {
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){
		s.report, s.streams.run, s.keepIdentity, s.keepStanding, s.reserved.run, s.thin, s.namePods,
		func(ctx context.Context) { s.logged("sample host", s.sampler.Run(ctx)) },
		func(ctx context.Context) { s.logged("deliver batches", s.spool.Run(ctx, s.send)) },
		func(ctx context.Context) { s.logged("deliver reports", s.applications.spool.Run(ctx, s.send)) },
	} {
		parts.Go(func() { part(ctx) })
	}
	parts.Wait()
}

func (s *service) logged(what string, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Error(what, "error", err)
	}
}

// changed handles a change of the connection to the server.
func (s *service) changed(connected bool, reason error) {
	if !connected {
		s.log.Warn("not connected", "server", s.identity.Server(), "reason", reason)
		if errors.Is(reason, bus.ErrRefused) {
			go s.explain()
		}
		return
	}
	s.log.Info("connected", "server", s.identity.Server(), "agent", s.identity.Name())
	s.spool.Retry()
	s.applications.spool.Retry()
	for _, signal := range []chan struct{}{s.ask, s.linked, s.rename} {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// explain asks the server why it rejects us, since the bus does not say.
func (s *service) explain() {
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
	defer cancel()
	switch err := s.identity.Standing(ctx); {
	case err == nil, s.ctx.Err() != nil:
	case errors.Is(err, identity.ErrRefused):
		s.log.Error("rejected by the server", "reason", err)
	default:
		s.log.Error("not connected, and the reason is unknown", "error", err)
	}
}

// state is what this agent reports to the server.
func (s *service) state() (session.State, error) {
	status, err := s.statuses.get(statusWait)
	if err != nil {
		return session.State{}, err
	}
	s.status.Store(&status)
	state, err := host.Describe()
	if err != nil {
		s.log.Warn("describe host", "error", err)
	}
	state.Agent, state.Instance = s.identity.Name(), s.instance
	state.Time, state.Started = time.Now(), s.started
	state.Version, state.Labels, state.Capabilities = version.Short(), s.labels(), session.Capabilities()
	state.Clock, state.Spool = status.Clock, s.spooled().Spool
	state.Thin = int(s.applications.thin.Load())
	state.Revision, state.Tasks = status.Revision, status.Tasks
	return state, nil
}

// current is the status of the loader, as of the last report to the server if there was one
// recently.
func (s *service) current() loader.Status {
	if !s.bus.Connected() || s.status.Load() == nil {
		status, err := s.loader.Status()
		if err != nil {
			s.log.Warn("sample agent", "error", err)
		}
		s.status.Store(&status)
	}
	return *s.status.Load()
}

// probeCost is nil if the kernel does not count it.
func (s *service) probeCost() *hook.Cost { return s.current().Cost }

// loaderUsage is nil if the loader is part of this process.
func (s *service) loaderUsage() *host.Usage { return s.current().Usage }

// spoolWait is how long the spool of a killed agent may still be locked: its unprivileged
// part ends just after it.
const spoolWait = 3 * time.Second

// openSpool opens a spool of that size in a folder of the data directory.
func (s *service) openSpool(ctx context.Context, name string, size int64) (opened *spool.Spool, err error) {
	options := spool.Options{LimitBytes: size, Log: s.log}
	if backend := s.applications.backend; backend != nil {
		options.Found, options.Recorded = backend.Found, backend.Recorded
	}
	ctx, cancel := context.WithTimeout(ctx, spoolWait)
	defer cancel()
	for {
		opened, err = spool.Open(filepath.Join(s.config.Folder, name), options)
		if !errors.Is(err, spool.ErrInUse) {
			return opened, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// spooled returns the counters of both spools.
func (s *service) spooled() spool.Stats { return s.spool.Stats().Add(s.applications.spool.Stats()) }

// closeTimeout bounds the delivery of the last batches when the agent exits.
const closeTimeout = 3 * time.Second

// close stops everything in an order that loses nothing: the last rows of the probes go
// into the spool, and what is not delivered in time stays there.
func (s *service) close() error {
	var err error
	if s.applications != nil {
		s.applications.close()
	}
	if s.loader != nil {
		err = errors.Join(err, s.loader.Close())
	}
	if s.streams != nil {
		err = errors.Join(err, s.streams.close())
	}
	if s.applications != nil && s.applications.backend != nil {
		err = errors.Join(err, s.applications.backend.Close())
	}
	if s.bus != nil && s.bus.Connected() {
		s.drain()
	}
	if s.bus != nil {
		s.bus.Close()
	}
	for _, one := range s.spools() {
		err = errors.Join(err, one.Close())
	}
	if s.applications != nil && s.applications.backend != nil {
		err = errors.Join(err, s.applications.backend.Forget())
	}
	if err != nil {
		return fmt.Errorf("stop agent: %w", err)
	}
	return nil
}

// drain delivers the last batches, within closeTimeout.
func (s *service) drain() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	running, stop := context.WithCancel(ctx)
	var sending sync.WaitGroup
	for _, one := range s.spools() {
		sending.Go(func() { s.logged("deliver batches", one.Run(running, s.send)) })
	}
	for _, one := range s.spools() {
		if err := one.Drain(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			s.log.Warn("deliver the last batches", "error", err)
		}
	}
	stop()
	sending.Wait()
}

// spools are those that are open.
func (s *service) spools() (open []*spool.Spool) {
	if s.spool != nil {
		open = append(open, s.spool)
	}
	if s.applications != nil && s.applications.spool != nil {
		open = append(open, s.applications.spool)
	}
	return open
}
