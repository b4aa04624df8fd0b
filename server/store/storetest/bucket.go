// Package storetest has a bucket in memory, for tests of what several servers share.
package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"pillion.dev/bus"
)

// Bucket is one without a cluster.
type Bucket struct {
	mu           sync.Mutex
	revision     uint64
	log          []bus.Entry // newest last; one of each key
	changed      chan struct{}
	lose, refuse int
}

// ErrLost is the failure of a write that was stored.
var ErrLost = errors.New("no reply")

// New returns an empty bucket.
func New() *Bucket { return &Bucket{changed: make(chan struct{})} }

// Fail makes the next writes fail as in a cluster whose nodes fail: the replies of so many are
// lost, and so many are refused.
func (m *Bucket) Fail(lose, refuse int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lose, m.refuse = lose, refuse
}

// Entries returns what is stored, for a test to read and to change.
func (m *Bucket) Entries() []bus.Entry { return m.log }

func (m *Bucket) find(key string) int {
	return slices.IndexFunc(m.log, func(e bus.Entry) bool { return e.Key == key })
}

// Get implements store.Bucket.
func (m *Bucket) Get(_ context.Context, key string) (bus.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at := m.find(key); at >= 0 && !m.log[at].Deleted {
		return m.log[at], nil
	}
	return bus.Entry{}, bus.ErrNoKey
}

func (m *Bucket) set(e bus.Entry, revision uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse > 0 {
		m.refuse--
		return 0, errors.New("no leader")
	}
	last := uint64(0)
	at := m.find(e.Key)
	if at >= 0 && !m.log[at].Deleted {
		last = m.log[at].Revision
	}
	if last != revision {
		return 0, bus.ErrChanged
	}
	if at >= 0 {
		m.log = slices.Delete(m.log, at, at+1)
	}
	m.revision++
	e.Revision = m.revision
	m.log = append(m.log, e)
	close(m.changed)
	m.changed = make(chan struct{})
	if m.lose > 0 {
		m.lose--
		return 0, ErrLost
	}
	return e.Revision, nil
}

// Create implements store.Bucket.
func (m *Bucket) Create(_ context.Context, key string, value []byte) (uint64, error) {
	return m.set(bus.Entry{Key: key, Value: value}, 0)
}

// Update implements store.Bucket.
func (m *Bucket) Update(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return m.set(bus.Entry{Key: key, Value: value}, revision)
}

// Delete implements store.Bucket.
func (m *Bucket) Delete(_ context.Context, key string, revision uint64) error {
	_, err := m.set(bus.Entry{Key: key, Deleted: true}, revision)
	return err
}

// Watch implements store.Bucket.
func (m *Bucket) Watch(ctx context.Context, prefix string, changed func(bus.Entry), current func()) error {
	last, known := uint64(0), map[string]bool{}
	for first := true; ; first = false {
		m.mu.Lock()
		entries, next := slices.Clone(m.log), m.changed
		m.mu.Unlock()
		for _, e := range entries {
			if e.Revision > last && strings.HasPrefix(e.Key, prefix) && ctx.Err() == nil {
				last = e.Revision
				if !e.Deleted || known[e.Key] {
					changed(e)
				}
				known[e.Key] = !e.Deleted
			}
		}
		if first {
			current()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		}
	}
}
