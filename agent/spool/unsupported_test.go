package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/store"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
)

// TestUnsupportedBatchesAreKept: batches that the server does not know yet hold up no
// others, are not set aside, survive a restart, and are delivered once to a server that
// knows them.
func TestUnsupportedBatchesAreKept(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	var updated atomic.Bool
	v.fail = func(e measure.Envelope) (before, after error) {
		if e.Stream == "new" && !updated.Load() {
			return fmt.Errorf("send batch: %w: layout 2", bus.ErrUnsupported), nil
		}
		return nil, nil
	}
	options := Options{unsupportedRetry: 50 * time.Millisecond}
	s := openAt(t, dir, options)
	run(t, s, v.send)
	const n = 100 // more than the window
	for i := range uint64(n) {
		put(t, s, "new", i, 10)
	}
	for i := range uint64(n) {
		put(t, s, "known", n+i, 10)
	}
	eventually := func(what string, condition func() bool) {
		t.Helper()
		for end := time.Now().Add(hang.Limit); !condition(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never: %s; %+v", what, s.Stats())
			}
		}
	}
	eventually("others are delivered", func() bool { return s.Stats().SentBatches == n })
	if stats := s.Stats(); stats.Batches != n || stats.Rejected != 0 || stats.DroppedBatches != 0 {
		t.Errorf("got %+v", stats)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, options)
	run(t, s, v.send)
	updated.Store(true)
	drain(t, s)
	v.check(t)
	if len(v.values) != 2*n {
		t.Errorf("%d values are stored, want %d", len(v.values), 2*n)
	}
	if _, err := os.Stat(filepath.Join(dir, rejectedFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("batches were set aside: %v", err)
	}
}

// TestRetry: what a server did not support is sent again when one has connected, not only a
// minute later.
func TestRetry(t *testing.T) {
	v := newServer()
	var updated atomic.Bool
	refused := make(chan struct{}, 1)
	v.fail = func(measure.Envelope) (before, after error) {
		if updated.Load() {
			return nil, nil
		}
		defer func() { refused <- struct{}{} }()
		return bus.ErrUnsupported, nil
	}
	s := openAt(t, t.TempDir(), Options{unsupportedRetry: time.Hour})
	run(t, s, v.send)
	s.Retry() // of nothing
	put(t, s, "new", 1, 10)
	<-refused
	until(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.flying == 0
	})
	updated.Store(true)
	s.Retry()
	drain(t, s)
}

// TestSpoolOfALaterVersionIsRefused: and not deleted as damaged.
func TestSpoolOfALaterVersionIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, Options{})
	put(t, s, "flows", 1, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.CheckFormat(dir, "spool", spoolFormat+1); err != nil { // that version
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("got %v", err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*"+suffix)); err != nil || len(files) != 1 {
		t.Errorf("left %v, %v", files, err)
	}
}
