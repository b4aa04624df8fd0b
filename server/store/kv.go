package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"pillion.dev/bus"
)

// Bucket of a cluster's key-value store; *bus.KV is one.
type Bucket interface {
	Get(ctx context.Context, key string) (bus.Entry, error)
	Create(ctx context.Context, key string, value []byte) (revision uint64, err error)
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
	Delete(ctx context.Context, key string, revision uint64) error
	Watch(ctx context.Context, prefix string, changed func(bus.Entry), current func()) error
}

// BucketName is the name of a fleet's bucket.
const BucketName = "pillion-state"

// KV keeps each item under a key of its own, sealed. It writes an item only if nobody else
// has done so since this server read or wrote it.
type KV struct {
	bucket Bucket
	sealer *sealer

	mu    sync.Mutex
	slots map[string]*slot // by key of the bucket
	// loaded is, by collection, a revision that was loaded with all before it: what a watch that
	// lags behind reports of those is out of date.
	loaded map[string]uint64
}

// slot is what this server knows of a key of the bucket.
type slot struct {
	revision uint64 // as it was last read or written; 0: it has no value
	latest   uint64 // the highest known one, also of what was deleted
	// tried are the digests of values that were sent, and deleting is set if a deletion was,
	// while it is unknown whether they arrived.
	tried    map[[sha256.Size]byte]bool
	deleting bool
}

const (
	writesAtOnce = 64
	// retryEvery is the pause after a failure of the cluster, which may be electing leaders.
	retryEvery = 100 * time.Millisecond
)

// Load reads what was written before the call, by whichever server.
func (s *KV) Load(ctx context.Context, collection string) (map[string][]byte, error) {
	// The node that serves the watch may lag behind; once it has this, it has what was before.
	barrier, err := s.barrier(ctx, collection)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", collection, err)
	}
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	entries := map[string]bus.Entry{}
	current, reached := false, false
	proceed := func() {
		if current && reached {
			cancel()
		}
	}
	err = s.bucket.Watch(watching, prefixOf(collection), func(e bus.Entry) {
		switch {
		case watching.Err() != nil:
		case e.Key == barrierOf(collection):
			reached = reached || e.Revision >= barrier
		case e.Deleted:
			delete(entries, e.Key)
		default:
			entries[e.Key] = e
		}
		proceed()
	}, func() { current = true; proceed() })
	if !current || !reached {
		return nil, fmt.Errorf("load %s: %w", collection, errors.Join(err, ctx.Err()))
	}
	items := map[string][]byte{}
	for name, e := range entries {
		key, item, err := s.read(name, e.Value)
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", collection, err)
		}
		items[key] = item
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.slots {
		if strings.HasPrefix(name, prefixOf(collection)) {
			delete(s.slots, name)
		}
	}
	for name, e := range entries {
		s.slots[name] = &slot{revision: e.Revision, latest: e.Revision}
	}
	s.loaded[collection] = max(s.loaded[collection], barrier)
	return items, nil
}

// barrier writes a key that no item has, and returns its revision.
func (s *KV) barrier(ctx context.Context, collection string) (revision uint64, err error) {
	key := barrierOf(collection)
	err = retry(ctx, func() error {
		e, err := s.bucket.Get(ctx, key)
		switch {
		case errors.Is(err, bus.ErrNoKey):
			revision, err = s.bucket.Create(ctx, key, nil)
		case err == nil:
			revision, err = s.bucket.Update(ctx, key, nil, e.Revision)
		}
		if errors.Is(err, ErrChanged) { // by another server, after this one began
			err = errRetry
		}
		return err
	})
	return revision, err
}

func (s *KV) read(name string, value []byte) (key string, item []byte, err error) {
	if key, err = itemKey(name); err == nil {
		item, err = s.sealer.open(name, value)
	}
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", name, err)
	}
	return key, item, nil
}

// Write writes the items at the same time.
func (s *KV) Write(ctx context.Context, collection string, items map[string][]byte) error {
	var all sync.WaitGroup
	places := make(chan struct{}, writesAtOnce)
	var mu sync.Mutex
	var failed error
	for key, item := range items {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if err := s.write(ctx, bucketKey(collection, key), item); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if failed == nil || errors.Is(err, ErrChanged) { // of thousands, the decisive one
					failed = fmt.Errorf("save %s: %.100s: %w", collection, key, err)
				}
			}
		})
	}
	all.Wait()
	return failed
}

// write writes one key. An item is sealed differently each time, so that a value that was sent
// and arrived, although its reply was lost, is recognised.
func (s *KV) write(ctx context.Context, name string, item []byte) error {
	var value []byte
	if item != nil {
		var err error
		if value, err = s.sealer.seal(name, item); err != nil {
			return err
		}
		if len(value) > bus.MaxPayload {
			return fmt.Errorf("%d bytes compressed, limit %d", len(value), bus.MaxPayload)
		}
	}
	return retry(ctx, func() error {
		revision := s.begin(name, value)
		if value == nil && revision == 0 {
			return nil
		}
		revision, err := s.send(ctx, name, value, revision)
		if errors.Is(err, ErrChanged) {
			return s.examine(ctx, name, value)
		}
		if err == nil {
			s.done(name, revision)
		}
		return err
	})
}

func (s *KV) send(ctx context.Context, name string, value []byte, revision uint64) (uint64, error) {
	switch {
	case value == nil:
		return 0, s.bucket.Delete(ctx, name, revision)
	case revision == 0:
		return s.bucket.Create(ctx, name, value)
	}
	return s.bucket.Update(ctx, name, value, revision)
}

// begin notes that a value is sent, and returns the revision that it replaces.
func (s *KV) begin(name string, value []byte) (revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.slots[name]
	if k == nil {
		k = &slot{}
		s.slots[name] = k
	}
	if value == nil {
		k.deleting = k.revision != 0
		return k.revision
	}
	if k.tried == nil {
		k.tried = map[[sha256.Size]byte]bool{}
	}
	k.tried[sha256.Sum256(value)] = true
	return k.revision
}

// done notes that what was sent last is in the bucket. Whatever was sent before can no longer arrive.
func (s *KV) done(name string, revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(name, revision)
}

// set replaces what is known of a key. The caller holds the lock.
func (s *KV) set(name string, revision uint64) {
	latest := revision
	if k := s.slots[name]; k != nil {
		latest = max(latest, k.latest)
	}
	s.slots[name] = &slot{revision: revision, latest: latest}
}

// errRetry repeats an attempt.
var errRetry = errors.New("try again")

// examine finds out who has changed a key: ErrChanged unless it was this server.
func (s *KV) examine(ctx context.Context, name string, value []byte) error {
	e, err := s.bucket.Get(ctx, name)
	gone := errors.Is(err, bus.ErrNoKey)
	if err != nil && !gone {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.slots[name]
	switch {
	case gone && value == nil, !gone && value != nil && string(e.Value) == string(value):
		s.set(name, e.Revision)
		return nil
	case !gone && e.Revision == k.revision:
		return errors.New("the cluster says that the key was changed, and that it was not")
	case gone && k.deleting, !gone && k.tried[sha256.Sum256(e.Value)]:
		k.revision, k.latest = e.Revision, max(k.latest, e.Revision) // an earlier attempt arrived
		return errRetry
	}
	return ErrChanged
}

// retry repeats what fails because of the cluster, until the context ends.
func retry(ctx context.Context, do func() error) error {
	for {
		err := do()
		var final permanent
		if err == nil || errors.Is(err, ErrChanged) || errors.Is(err, bus.ErrTooLarge) || errors.As(err, &final) {
			return err
		}
		if errors.Is(err, errRetry) && ctx.Err() == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(retryEvery):
		}
	}
}

// Follow watches the bucket.
func (s *KV) Follow(ctx context.Context, collection string, lock sync.Locker, changed func(key string, item []byte)) error {
	var failed error
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	err := s.bucket.Watch(watching, prefixOf(collection), func(e bus.Entry) {
		if e.Key == barrierOf(collection) || watching.Err() != nil {
			return
		}
		lock.Lock()
		defer lock.Unlock()
		if s.own(collection, e) {
			return
		}
		key, err := itemKey(e.Key)
		var item []byte
		if err == nil && !e.Deleted {
			key, item, err = s.read(e.Key, e.Value)
		}
		if err != nil {
			failed = fmt.Errorf("follow %s: %w", collection, err)
			cancel()
			return
		}
		changed(key, item)
		if e.Deleted {
			e.Revision = 0
		}
		s.done(e.Key, e.Revision)
	}, func() {})
	if failed == nil && ctx.Err() == nil {
		failed = fmt.Errorf("follow %s: %w", collection, err)
	}
	return failed
}

// own reports whether an entry is older than what this server knows, or its own.
func (s *KV) own(collection string, e bus.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.slots[e.Key]
	switch {
	case !e.Deleted && e.Revision <= s.loaded[collection]:
		return true
	case k == nil:
		return e.Deleted
	case e.Deleted:
		return k.revision == 0 || k.deleting || e.Revision < k.revision
	}
	return e.Revision <= k.latest || k.tried[sha256.Sum256(e.Value)]
}

// Shared is true.
func (s *KV) Shared() bool { return true }
