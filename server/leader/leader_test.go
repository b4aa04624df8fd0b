package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// patience is the timeout of every wait; no test asserts a duration.
const patience = hang.Limit

// lock is a lease that several servers want.
type lock struct {
	free chan struct{}
	mu   sync.Mutex
	last uint64
	held *lease
}

type lease struct {
	lock     *lock
	revision uint64
	done     chan struct{}
	once     sync.Once
}

func newLock() *lock {
	l := &lock{free: make(chan struct{}, 1)}
	l.free <- struct{}{}
	return l
}

func (l *lock) acquire(ctx context.Context) (Lease, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.free:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.held = &lease{lock: l, revision: l.last, done: make(chan struct{})}
	return l.held, nil
}

// expire ends the lease as if its holder did not reach the others.
func (l *lock) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held.end()
}

func (l *lease) end() {
	l.once.Do(func() {
		close(l.done)
		l.lock.free <- struct{}{}
	})
}

func (l *lease) Revision() uint64              { return l.revision }
func (l *lease) Done() <-chan struct{}         { return l.done }
func (l *lease) Release(context.Context) error { l.end(); return nil }
func (l *lease) Held() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
	}
	return v
}

// TestOneLeads: one server leads at a time, and only after it has loaded the state; another follows when
// its lease expires and when it stops.
func TestOneLeads(t *testing.T) {
	l := newLock()
	type member struct {
		*Leader
		stop  func()
		ended chan struct{}
	}
	var members []*member
	leading, loading, proceed := make(chan int, 10), make(chan int, 10), make(chan struct{})
	for i := range 3 {
		m := &member{ended: make(chan struct{})}
		m.Leader = New(Options{
			Acquire: l.acquire, Log: slog.New(slog.DiscardHandler),
			Load: func(context.Context) error {
				loading <- i
				<-proceed
				return nil
			},
			Lead: func(ctx context.Context) error {
				leading <- i
				<-ctx.Done()
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		m.stop = cancel
		go func() {
			defer close(m.ended)
			m.Run(ctx)
		}()
		members = append(members, m)
	}
	leads := func() (n int) {
		for _, m := range members {
			if m.Leads() {
				n++
			}
		}
		return n
	}
	next := func() *member {
		t.Helper()
		one := await(t, "a server loads the state", loading)
		if leads() != 0 {
			t.Errorf("%d servers lead while one loads the state", leads())
		}
		proceed <- struct{}{}
		if again := await(t, "a server leads", leading); again != one || leads() != 1 || !members[one].Leads() {
			t.Errorf("%d leads after %d has loaded the state; %d lead", again, one, leads())
		}
		return members[one]
	}
	first := next()
	if term := first.Term(); !term.Leads || term.Revision != 1 || term.Terms != 1 {
		t.Errorf("the first term is %+v", term)
	}
	l.expire()
	if first.Leads() {
		t.Error("a server leads after its lease has expired")
	}
	second := next()
	second.stop()
	await(t, "the server ends", second.ended)
	third := next()
	if term := third.Term(); term.Revision != 3 || second.Leads() {
		t.Errorf("the third term is %+v", term)
	}
	for _, m := range members {
		m.stop()
	}
	for _, m := range members {
		await(t, "the server ends", m.ended)
	}
	if leads() != 0 {
		t.Error("a server that has stopped leads")
	}
}

// TestFailedTerms: a server that cannot load the state leaves the lease to others, as one whose work ends.
func TestFailedTerms(t *testing.T) {
	l := newLock()
	tries := make(chan int, 10)
	n := 0
	m := New(Options{
		Acquire: l.acquire, Log: slog.New(slog.DiscardHandler),
		Load: func(context.Context) error {
			n++
			tries <- n
			if n == 1 {
				return errors.New("no store")
			}
			return nil
		},
		Lead: func(context.Context) error { return errors.New("changed by another server") },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.Run(ctx)
	}()
	for want := range 3 {
		if got := await(t, "another try", tries); got != want+1 {
			t.Errorf("try %d, want %d", got, want+1)
		}
	}
	cancel()
	await(t, "it ends", ended)
	if m.Leads() || m.Term().Terms < 1 {
		t.Errorf("after failed terms: %+v", m.Term())
	}
}

func TestNilLeads(t *testing.T) {
	var l *Leader
	if !l.Leads() {
		t.Error("a server without a fleet does not lead")
	}
}
