package runner

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/probe/source"
	"pillion.dev/session"
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
}

// Source runs a LocalSource.
type Source struct {
	mu     sync.Mutex
	module *sourceModule
	task   sourceTask
}

// OpenSource attaches the program and starts its lease.
func OpenSource(local LocalSource) (*Source, error) {
	if err := checkDevice(local.Device); err != nil {
		return nil, err
	}
	s := &Source{task: sourceTask{local: &local.Settings}}
	s.task.Lease = session.Duration(local.Lease)
	s.setSampling(local.Sampling)
	module, err := openSource(local.Device, []sourceTask{s.task})
	if err != nil {
		return nil, err
	}
	s.module = module
	if module.renew(session.Pulse{}); module.err != nil {
		return nil, errors.Join(module.err, module.close())
	}
	return s, nil
}

// checkDevice reports a missing device or missing privileges before anything changes.
func checkDevice(name string) error {
	if _, err := hook.Find(name); err != nil {
		return err
	}
	return hook.NeedRoot()
}

// Device is where the program is attached.
func (s *Source) Device() hook.Device { return s.module.device }

// Listener is where other processes reach the source: hook.Address.
func (s *Source) Listener() *net.UnixListener { return s.module.owner }

// Run follows changes of the device and renews the lease until the context ends. It
// calls show at every interval.
func (s *Source) Run(ctx context.Context, interval time.Duration, show func() error) error {
	renew := time.NewTicker(renewEvery(time.Duration(s.task.Lease)))
	defer renew.Stop()
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-renew.C:
			err = s.follow()
		case <-ticks.C:
			err = show()
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

func (s *Source) follow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.module.follow([]sourceTask{s.task}, session.Pulse{}); err != nil {
		return err
	}
	s.module.renew(session.Pulse{})
	return s.module.err
}

func (s *Source) setSampling(sampling source.Sampling) {
	s.task.Sampling = session.Sampling{Every: sampling.Every, Random: sampling.Random, MinGap: session.Duration(sampling.MinGap)}
}

// Sample changes the sampling while traffic flows.
func (s *Source) Sample(sampling source.Sampling) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.task.Sampling
	s.setSampling(sampling)
	err := s.module.follow([]sourceTask{s.task}, session.Pulse{})
	if err != nil {
		s.task.Sampling = before
	}
	return err
}

// Tally is what the program has counted.
func (s *Source) Tally() (source.Tally, error) { return s.module.probe.Tally() }

// Stop takes the program off the device. Its counters can still be read.
func (s *Source) Stop() error {
	return errors.Join(s.module.probe.Detach(), s.module.probe.Sweep())
}

// Close stops the source and frees it.
func (s *Source) Close() error { return s.module.close() }

// LocalDestination is a destination that runs on one device without a session.
type LocalDestination struct {
	Device string
	destination.Settings
	Interval    time.Duration
	Granularity destination.Granularity
	// Rows takes the rows of each interval, Record a packet if Settings.Records is
	// set. Neither is called concurrently with itself or the other.
	Rows   func(LocalRows) error
	Record func(*destination.Record) error
}

// LocalRows are the rows of one interval, with the state at its end.
type LocalRows struct {
	Time  time.Time
	Rows  []destination.Row
	Tally destination.Tally
	Clock clock.State
}

// Destination runs a LocalDestination.
type Destination struct {
	module *destinationModule
	tasks  []destinationTask
}

// OpenDestination attaches the program. Run delivers its rows.
func OpenDestination(local LocalDestination) (*Destination, error) {
	if err := checkDevice(local.Device); err != nil {
		return nil, err
	}
	task := destinationTask{local: &local}
	task.Interval, task.Granularity = session.Duration(local.Interval), string(local.Granularity)
	task.Records = local.Records
	tasks := []destinationTask{task}
	module, err := openDestination(local.Device, tasks, Options{Log: slog.New(slog.DiscardHandler)}, present)
	if err != nil {
		return nil, err
	}
	return &Destination{module, tasks}, nil
}

// Device is where the program is attached.
func (d *Destination) Device() hook.Device { return d.module.device }

// Run delivers rows and follows changes of the device until the context ends.
func (d *Destination) Run(ctx context.Context) error {
	d.module.start()
	ticks := time.NewTicker(localFollowEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		if err := errors.Join(d.module.follow(d.tasks), d.module.failure()); err != nil {
			return err
		}
	}
}

// Stop takes the program off the device and delivers the last rows and records.
func (d *Destination) Stop() error {
	err := d.module.detach()
	d.module.finish()
	return errors.Join(err, d.module.failure())
}

// Tally is what the program has counted.
func (d *Destination) Tally() (destination.Tally, error) { return d.module.probe.Tally() }

// Close frees the destination.
func (d *Destination) Close() error {
	return errors.Join(d.module.probe.Close(), d.module.owner.Close())
}
