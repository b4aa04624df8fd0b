package bus

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Lease is a key that its holder alone writes, again and again, before the bucket's TTL
// ends. It is released, or lost when the cluster cannot be reached in time.
type Lease struct {
	kv       *KV
	key      string
	value    []byte
	revision uint64 // of its creation
	done     chan struct{}
	stop     sync.Once     // closes done
	ending   sync.Once     // closes stopped
	stopped  chan struct{} // ends renewal
	renewals sync.WaitGroup

	mu     sync.Mutex
	latest uint64    // revision
	until  time.Time // when it may have expired
}

// claim is a lease's value. Nonce tells it from other leases of the same holder.
type claim struct {
	Holder string `json:"holder"`
	Nonce  string `json:"nonce"`
}

// A lease counts as expired a fraction of the TTL before it does: the clock of the node that
// leads the bucket may change with the node.
const (
	leaseMargin  = 6
	renewals     = 3  // within the TTL
	leaseRetries = 12 // after a failure, within the TTL
)

// Acquire waits until nobody holds the key and takes it. holder names the caller to the others.
func (k *KV) Acquire(ctx context.Context, key, holder string) (*Lease, error) {
	for {
		lease, err := k.TryAcquire(ctx, key, holder)
		if err == nil || ctx.Err() != nil || k.ttl == 0 {
			return lease, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(k.ttl / leaseRetries):
		}
	}
}

// TryAcquire takes the key, or returns ErrChanged if it is held. After a different error it may
// be taken until the TTL ends.
func (k *KV) TryAcquire(ctx context.Context, key, holder string) (*Lease, error) {
	if k.ttl == 0 {
		return nil, fmt.Errorf("acquire lease %q: the bucket has no TTL", key)
	}
	value, err := json.Marshal(claim{holder, rand.Text()})
	if err != nil {
		return nil, fmt.Errorf("acquire lease %q: %w", key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, k.ttl)
	defer cancel()
	sent := time.Now()
	revision, err := k.Create(ctx, key, value)
	if err != nil {
		return nil, fmt.Errorf("acquire lease: %w", err)
	}
	l := &Lease{kv: k, key: key, value: value, revision: revision, latest: revision, done: make(chan struct{}), stopped: make(chan struct{})}
	l.until = l.expiry(sent)
	l.renewals.Go(l.renew)
	return l, nil
}

// HolderOf returns who holds a lease, of the value of its key.
func HolderOf(value []byte) (holder string, err error) {
	var c claim
	if err := json.Unmarshal(value, &c); err != nil {
		return "", fmt.Errorf("read lease: %w", err)
	}
	return c.Holder, nil
}

// expiry is when a lease written at that time may have expired.
func (l *Lease) expiry(written time.Time) time.Time {
	return written.Add(l.kv.ttl - l.kv.ttl/leaseMargin)
}

// renew writes the key again until the lease is released or lost.
func (l *Lease) renew() {
	defer l.stop.Do(func() { close(l.done) })
	for wait := l.kv.ttl / renewals; ; {
		l.mu.Lock()
		left := time.Until(l.until)
		l.mu.Unlock()
		expired := wait >= left
		select {
		case <-time.After(min(wait, left)):
		case <-l.stopped:
			return
		}
		if expired {
			return
		}
		wait = l.kv.ttl / renewals
		if err := l.write(); errors.Is(err, ErrChanged) {
			return
		} else if err != nil {
			wait = l.kv.ttl / leaseRetries
		}
	}
}

// write renews the lease once. A renewal whose reply was lost has changed the revision.
func (l *Lease) write() error {
	l.mu.Lock()
	latest, until := l.latest, l.until
	l.mu.Unlock()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	ctx, cancelTry := context.WithTimeout(ctx, l.kv.ttl/renewals)
	defer cancelTry()
	sent := time.Now()
	revision, err := l.kv.Update(ctx, l.key, l.value, latest)
	if errors.Is(err, ErrChanged) {
		e, failed := l.kv.Get(ctx, l.key)
		if failed != nil && !errors.Is(failed, ErrNoKey) {
			return failed
		}
		if failed == nil && string(e.Value) == string(l.value) {
			// When that renewal was stored is unknown: the next one extends the lease.
			revision, sent, err = e.Revision, time.Time{}, errors.New("renewal of unknown time")
		}
	}
	if revision == 0 {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = revision
	if !sent.IsZero() {
		l.until = l.expiry(sent)
	}
	return err
}

// Revision is the revision in which the key was created: it ascends over the owners of a key.
func (l *Lease) Revision() uint64 { return l.revision }

// Done is closed as soon as the lease may have expired, or is released.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Held reports whether nobody else can have taken the key.
func (l *Lease) Held() bool {
	select {
	case <-l.done:
		return false
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until)
}

// Release lets others take the key at once.
func (l *Lease) Release(ctx context.Context) error {
	l.end()
	l.renewals.Wait()
	l.mu.Lock()
	latest := l.latest
	l.mu.Unlock()
	if err := l.kv.Delete(ctx, l.key, latest); err != nil && !errors.Is(err, ErrChanged) {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}

// end stops renewal: the lease is no longer held, and expires.
func (l *Lease) end() {
	l.stop.Do(func() { close(l.done) })
	l.ending.Do(func() { close(l.stopped) })
}
