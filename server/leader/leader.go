// Package leader makes one of the servers of a fleet lead the others: the one that holds a lease runs
// control, retention and whatever else must be done once, until the lease may have expired.
//
// It does not know what a leader does, nor where leases are kept. A nil *Leader stands for a server
// without a fleet, which always leads.
package leader

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Lease is held by one server at a time; bus.Lease is one.
type Lease interface {
	// Revision ascends over the holders.
	Revision() uint64
	// Done is closed as soon as the lease may have expired.
	Done() <-chan struct{}
	Held() bool
	Release(ctx context.Context) error
}

// Options of a Leader.
type Options struct {
	// Acquire waits until the lease is free and takes it.
	Acquire func(ctx context.Context) (Lease, error)
	// Load reads what the previous leader has left; only then does this one lead.
	Load func(ctx context.Context) error
	// Lead does what a leader does until the context ends, which it does at once when the lease may have
	// expired. If it returns before, another server may lead.
	Lead func(ctx context.Context) error
	Log  *slog.Logger
}

// Leader is a server's part in the election. Its methods are safe for concurrent use.
type Leader struct {
	options Options

	mu      sync.Mutex
	lease   Lease
	leads   bool // the state is loaded
	since   time.Time
	terms   uint64
	changed chan struct{} // closed at the next change
}

const (
	// retryTime is the pause after a term that failed; others can take the lease meanwhile.
	retryTime   = time.Second
	releaseTime = 2 * time.Second
)

// New returns a Leader that does not take part yet.
func New(options Options) *Leader { return &Leader{options: options, changed: make(chan struct{})} }

// Run takes part in the election until the context ends. It releases the lease, so that another server
// leads at once.
func (l *Leader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		lease, err := l.options.Acquire(ctx)
		if err == nil {
			err = l.term(ctx, lease)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		l.options.Log.Warn("this server does not lead the fleet", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryTime):
		}
	}
}

// term is the time for which one lease is held.
func (l *Leader) term(ctx context.Context, lease Lease) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-lease.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		l.set(nil, false)
		release, cancel := context.WithTimeout(context.Background(), releaseTime)
		defer cancel()
		if err := lease.Release(release); err != nil {
			l.options.Log.Warn("the lease of the leader expires, since it was not released", "error", err)
		}
	}()
	l.set(lease, false)
	began := time.Now()
	if err := l.options.Load(ctx); err != nil {
		return err
	}
	l.set(lease, true)
	l.options.Log.Info("this server leads the fleet", "term", lease.Revision(), "loaded_in", time.Since(began))
	err := l.options.Lead(ctx)
	l.options.Log.Info("this server no longer leads the fleet", "term", lease.Revision(), "lost", !lease.Held(), "error", err)
	return err
}

func (l *Leader) set(lease Lease, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease, l.leads = lease, leads
	if leads {
		l.since = time.Now()
		l.terms++
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Leads reports whether this server leads now: nobody else can have taken the lease.
func (l *Leader) Leads() bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leads && l.lease.Held()
}

// Changed is closed when this server begins or ceases to lead after the call.
func (l *Leader) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Term is the current one of this server, or its last one.
type Term struct {
	Leads    bool
	Revision uint64 // of the lease
	Since    time.Time
	Terms    uint64 // how often this server has led
}

// Term returns it.
func (l *Leader) Term() Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Term{Since: l.since, Terms: l.terms}
	if l.lease != nil {
		t.Revision, t.Leads = l.lease.Revision(), l.leads && l.lease.Held()
	}
	return t
}
