package bus_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
)

const kvPatience = 30 * time.Second

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(kvPatience); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

func connect(t *testing.T, c *bustest.Cluster) *bus.Server {
	t.Helper()
	s, err := bus.ConnectServer(t.Context(), bus.ServerOptions{URL: c.URL(), TLS: c.ServerTLS()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, s *bus.Server, bucket string, ttl time.Duration) *bus.KV {
	t.Helper()
	k, err := s.KV(t.Context(), bucket, bus.KVOptions{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKV: keys, watches and leases of two servers of one cluster, which loses its majority.
func TestKV(t *testing.T) {
	c := bustest.Start(t, t.TempDir())
	one, two := connect(t, c), connect(t, c)
	t.Run("compare and set", func(t *testing.T) { testCompareAndSet(t, one, two) })
	t.Run("watch", func(t *testing.T) { testWatch(t, one, two) })
	t.Run("expiry is seen", func(t *testing.T) { testExpiry(t, one, two) })
	t.Run("lease", func(t *testing.T) { testLease(t, one, two) })
	t.Run("lease is exclusive", func(t *testing.T) { testExclusive(t, one, two) })
	t.Run("without a majority", func(t *testing.T) { testNoMajority(t, c, one) })
}

func testCompareAndSet(t *testing.T, one, two *bus.Server) {
	ctx := t.Context()
	a, b := open(t, one, "cas", 0), open(t, two, "cas", 0)
	if _, err := a.Get(ctx, "x"); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("read an absent key: %v", err)
	}
	first, err := a.Create(ctx, "x", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(ctx, "x", []byte("2")); !errors.Is(err, bus.ErrChanged) {
		t.Errorf("create a present key: %v", err)
	}
	second, err := b.Update(ctx, "x", []byte("2"), first)
	if err != nil || second <= first {
		t.Errorf("revision %d after %d: %v", second, first, err)
	}
	if _, err := a.Update(ctx, "x", []byte("3"), first); !errors.Is(err, bus.ErrChanged) {
		t.Errorf("update an old revision: %v", err)
	}
	if err := a.Delete(ctx, "x", first); !errors.Is(err, bus.ErrChanged) {
		t.Errorf("delete an old revision: %v", err)
	}
	if e, err := a.Get(ctx, "x"); err != nil || string(e.Value) != "2" || e.Revision != second || e.Key != "x" {
		t.Errorf("read %+v: %v", e, err)
	}
	if err := a.Delete(ctx, "x", second); err != nil {
		t.Error(err)
	}
	if _, err := b.Get(ctx, "x"); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("read a deleted key: %v", err)
	}
	if third, err := b.Create(ctx, "x", nil); err != nil || third <= second {
		t.Errorf("create a deleted key: revision %d, %v", third, err)
	}
	if uint64(time.Now().Add(-time.Hour).UnixMilli()) > first {
		t.Errorf("revision %d does not begin with the time", first)
	}
}

// follower collects what Watch reports.
type follower struct {
	mu      sync.Mutex
	have    map[string]string
	changes int
	current atomic.Bool
	ended   chan error
}

func follow(ctx context.Context, k *bus.KV, prefix string) *follower {
	f := &follower{have: map[string]string{}, ended: make(chan error, 1)}
	go func() {
		f.ended <- k.Watch(ctx, prefix, func(e bus.Entry) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.changes++
			f.have[e.Key] = string(e.Value)
			if e.Deleted {
				delete(f.have, e.Key)
			}
		}, func() {
			if f.current.Swap(true) {
				panic("current was called twice")
			}
		})
	}()
	return f
}

func (f *follower) is(want map[string]string) func() bool {
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.current.Load() && maps.Equal(f.have, want)
	}
}

func testWatch(t *testing.T, one, two *bus.Server) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, b := open(t, one, "watch", 0), open(t, two, "watch", 0)
	empty := follow(ctx, a, "agents.")
	eventually(t, "an empty bucket is current", empty.is(map[string]string{}))
	revision, err := b.Create(ctx, "agents.n", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(ctx, "tokens.n", []byte("1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first key is seen", empty.is(map[string]string{"agents.n": "1"}))
	late := follow(ctx, a, "agents.")
	all := follow(ctx, a, "")
	eventually(t, "keys from before are seen", late.is(map[string]string{"agents.n": "1"}))
	eventually(t, "all keys are seen", all.is(map[string]string{"agents.n": "1", "tokens.n": "1"}))
	if revision, err = b.Update(ctx, "agents.n", []byte("2"), revision); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an update is seen", late.is(map[string]string{"agents.n": "2"}))
	if err := b.Delete(ctx, "agents.n", revision); err != nil {
		t.Fatal(err)
	}
	for _, f := range []*follower{empty, late} {
		eventually(t, "a deletion is seen", f.is(map[string]string{}))
	}
	cancel()
	if err := <-late.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}

func testExpiry(t *testing.T, one, two *bus.Server) {
	const ttl = 500 * time.Millisecond
	a, b := open(t, one, "expiry", ttl), open(t, two, "expiry", ttl)
	f := follow(t.Context(), a, "")
	if _, err := b.Create(t.Context(), "m", []byte("1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key is seen", f.is(map[string]string{"m": "1"}))
	eventually(t, "its expiry is seen", f.is(map[string]string{}))
}

func testLease(t *testing.T, one, two *bus.Server) {
	const ttl = time.Second
	ctx := t.Context()
	a, b := open(t, one, "leases", ttl), open(t, two, "leases", ttl)
	first, err := a.Acquire(ctx, "leader", "one")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := b.Get(ctx, "leader"); err != nil {
		t.Error(err)
	} else if holder, err := bus.HolderOf(e.Value); holder != "one" || err != nil {
		t.Errorf("held by %q: %v", holder, err)
	}
	if _, err := b.TryAcquire(ctx, "leader", "two"); !errors.Is(err, bus.ErrChanged) {
		t.Errorf("take a held lease: %v", err)
	}
	waits, cancel := context.WithTimeout(ctx, 3*ttl)
	defer cancel()
	if l, err := b.Acquire(waits, "leader", "two"); err == nil {
		t.Errorf("took a held lease, revision %d", l.Revision())
	}
	if !first.Held() {
		t.Fatal("a renewed lease is lost")
	}
	if err := first.Release(ctx); err != nil {
		t.Error(err)
	}
	if <-first.Done(); first.Held() {
		t.Error("a released lease is held")
	}
	second, err := b.TryAcquire(ctx, "leader", "two")
	if err != nil {
		t.Fatalf("take a released lease: %v", err)
	}
	if second.Revision() <= first.Revision() {
		t.Errorf("owner %d after %d", second.Revision(), first.Revision())
	}
	two.Close() // as if the process were gone
	third, err := a.Acquire(ctx, "leader", "one")
	if err != nil {
		t.Fatal(err)
	}
	if <-second.Done(); third.Revision() <= second.Revision() {
		t.Errorf("owner %d after %d", third.Revision(), second.Revision())
	}
	if err := third.Release(ctx); err != nil {
		t.Error(err)
	}
}

// testExclusive: of many that want a lease, at most one believes that it holds it.
func testExclusive(t *testing.T, one, _ *bus.Server) {
	k := open(t, one, "exclusive", time.Second)
	var holders, turns atomic.Int32
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 3 {
				l, err := k.Acquire(t.Context(), "only", fmt.Sprint(i))
				if err != nil {
					t.Error(err)
					return
				}
				if holders.Add(1) != 1 {
					t.Error("two hold the lease")
				}
				turns.Add(1)
				holders.Add(-1)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if turns.Load() != 12 {
		t.Errorf("%d turns", turns.Load())
	}
}

// testNoMajority: a lease cannot be renewed without a majority, and says so in time.
func testNoMajority(t *testing.T, c *bustest.Cluster, one *bus.Server) {
	k := open(t, one, "majority", time.Second)
	l, err := k.Acquire(t.Context(), "only", "one")
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(0)
	c.Kill(1)
	<-l.Done()
	if l.Held() {
		t.Error("a lost lease is held")
	}
}
