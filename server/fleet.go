package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/internal/every"
	"pillion.dev/measure"
	"pillion.dev/server/leader"
	"pillion.dev/server/store"
)

// fleet is this server among the servers that share its state. A nil *fleet stands for a single server,
// which always leads.
type fleet struct {
	s      *server
	name   string
	leader *leader.Leader
	stored *bus.Stored
	began  time.Time

	mu    sync.Mutex
	heard map[string]presence // by name
	calls map[*context.CancelCauseFunc]bool
	// led is when a leader last announced itself, ledByOther when a leader other than this server did.
	led, ledByOther time.Time
}

const (
	leaderBucket = "pillion-leader"
	leaderKey    = "leader"
	// leaseTime is how long a dead server leads at most. Sources stop 10 s after the last pulse.
	leaseTime = 3 * time.Second
)

var errLeaderGone = errors.New("the leading server has gone")

// openStore opens the state: files, or what the servers of a fleet share.
func (s *server) openStore(ctx context.Context) error {
	s.store = store.NewFiles(s.config.Folder)
	if s.laned() == nil {
		return nil
	}
	if err := s.openBus(ctx); err != nil {
		return err
	}
	bucket, shared, err := openBucket(ctx, s.bus, s.authority, s.config.Folder)
	if err != nil {
		return err
	}
	if err := s.refuseFiles(ctx, shared); err != nil {
		return err
	}
	s.store, s.bucket = shared, bucket
	return nil
}

// newFleet makes the server one of those that share its state, if any do.
func (s *server) newFleet() *fleet {
	if !s.store.Shared() {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "server"
	}
	f := &fleet{s: s, name: host + "-" + strings.ToLower(rand.Text()[:6]), began: time.Now(), heard: map[string]presence{}, calls: map[*context.CancelCauseFunc]bool{}}
	f.leader = leader.New(leader.Options{Acquire: f.acquire, Load: f.load, Lead: f.lead, Log: s.log})
	return f
}

// Leads reports whether this server does what one server of a fleet does.
func (f *fleet) Leads() bool { return f == nil || f.leader.Leads() }

// leads reports whether this server does what one of a fleet does; one that is alone does.
func (s *server) leads() bool { return s.fleet.Leads() }

// storeClockPair stores an estimate that all servers make.
func (s *server) storeClockPair(sample measure.Sample) {
	if s.leads() {
		s.local.ClockPair(sample)
	}
}

// open begins to exchange stored rows and news with the other servers.
func (f *fleet) open(ctx context.Context) (err error) {
	if f == nil {
		return nil
	}
	if f.stored, err = f.s.bus.OpenStored(ctx, f.receive); err != nil {
		return err
	}
	return f.s.bus.Announced(f.hear)
}

func (f *fleet) close() {
	if f != nil && f.stored != nil {
		f.stored.Close()
	}
}

// serve takes part in the fleet until the context ends.
func (f *fleet) serve(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { f.leader.Run(ctx) })
	parts.Go(func() { f.publish(ctx) })
	parts.Go(func() { f.announce(ctx) })
	parts.Go(func() { f.follow(ctx, "tokens", f.s.authority.Follow) })
	parts.Go(func() { f.followLeader(ctx) })
	parts.Go(func() { purge(ctx, f.s.bucket, f.s.stepClock, f.s.log) })
	if f.s.applications != nil {
		parts.Go(func() { f.follow(ctx, "tables of applications", f.s.applications.backend.Follow) })
	}
	parts.Wait()
}

func (f *fleet) acquire(ctx context.Context) (leader.Lease, error) {
	kv, err := f.s.bus.KV(ctx, leaderBucket, bus.KVOptions{TTL: leaseTime})
	if err != nil {
		return nil, err
	}
	lease, err := kv.Acquire(ctx, leaderKey, f.name)
	if err != nil {
		return nil, err // not a nil *bus.Lease
	}
	return lease, nil
}

// load reads the state that the previous leader has left.
func (f *fleet) load(ctx context.Context) error {
	return errors.Join(f.s.authority.Reload(ctx), f.s.control.Reload(ctx))
}

// lead does what one server does for all.
func (f *fleet) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_, last := f.lastLed()
	f.s.events.release(last)
	stop, err := f.s.bus.ServeCalls(func(call context.Context, request []byte) []byte {
		call, cancel := context.WithCancel(call)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return f.s.web.Answer(call, request)
	})
	if err != nil {
		return err
	}
	defer stop()
	var parts sync.WaitGroup
	parts.Go(func() { cancel(f.s.control.Run(ctx)) })
	parts.Go(func() { cancel(f.s.runAlarms(ctx)) })
	parts.Go(func() { f.s.retain(ctx) })
	parts.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// followLeader keeps agents as the leading server has them, while another server is that.
func (f *fleet) followLeader(ctx context.Context) {
	for ctx.Err() == nil {
		changed := f.leader.Changed()
		if f.leader.Term().Revision != 0 { // this server leads or is about to
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		following, cancel := context.WithCancel(ctx)
		var parts sync.WaitGroup
		parts.Go(func() { f.follow(following, "agents", f.s.control.Follow) })
		parts.Go(func() { f.lapse(following) })
		select {
		case <-ctx.Done():
		case <-changed:
		}
		cancel()
		parts.Wait()
	}
}

func (f *fleet) lapse(ctx context.Context) {
	every.Do(ctx, time.Second, func() { f.s.control.Lapse() })
}

// follow applies what other servers write until the context ends.
func (f *fleet) follow(ctx context.Context, what string, follow func(context.Context) error) {
	for {
		err := follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.s.log.Warn("cannot follow the other servers", "of", what, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// publish passes on to the other servers what this one has stored.
func (f *fleet) publish(ctx context.Context) {
	watcher := f.s.ingest.Live().WatchOwn(nil, followBuffer)
	defer watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case batch, open := <-watcher.Batches():
			if !open {
				return
			}
			if f.wanted(batch.Schema.Name) {
				f.send(batch)
			}
			batch.Record.Release()
		}
	}
}

func (f *fleet) send(batch archive.Batch) {
	key := batch.Key
	key.Stream = batch.Schema.Name
	envelope, err := measure.Encode(key, batch.Record)
	if err != nil {
		f.s.log.Warn("publish stored rows", "stream", key.Stream, "error", err)
		return
	}
	f.stored.Publish(batch.Agent, envelope)
}

// receive shows rows that another server has stored.
func (f *fleet) receive(agent string, envelope measure.Envelope) {
	schema, record, err := envelope.Decode()
	if err != nil {
		f.s.log.Warn("read rows of another server", "error", err)
		return
	}
	f.s.ingest.Live().Receive(archive.Batch{Agent: agent, Key: envelope.Key, Oldest: envelope.Oldest, Schema: schema, Record: record})
	record.Release()
}

// Call passes a request on to the leading server. It ends when another server comes to lead.
func (f *fleet) Call(ctx context.Context, request []byte) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f.mu.Lock()
	f.calls[&cancel] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.calls, &cancel)
	}()
	answer, err := f.s.bus.Call(ctx, request)
	if err != nil && errors.Is(context.Cause(ctx), errLeaderGone) {
		err = fmt.Errorf("%w: %w", errLeaderGone, err)
	}
	return answer, err
}
