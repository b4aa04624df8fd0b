package spool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pillion.dev/measure"
)

// holder puts batches and records the outcome of each, by sequence number.
type holder struct {
	spool   *Spool
	written []uint64
	lost    []uint64
}

func (h *holder) hold(t *testing.T, value uint64, padding int) {
	t.Helper()
	r := record(schemaOf("a"), value, 1, padding)
	defer r.Release()
	err := h.spool.Hold(schemaOf("a"), r, func(key measure.Key, err error) {
		if err != nil {
			h.lost = append(h.lost, key.Sequence)
		} else {
			h.written = append(h.written, key.Sequence)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// move renames the folder, so that creating the next file fails as on a full disk, or
// renames it back.
func move(t *testing.T, s *Spool, from, to string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestHoldReports: the callback runs when the batch is on disk. If writing fails, it is not
// sent before; those of Put are.
func TestHoldReports(t *testing.T) {
	dir, v := filepath.Join(t.TempDir(), "spool"), newServer()
	away := dir + ".away"
	found := map[uint64]bool{}
	s := openAt(t, dir, Options{Window: 1})
	h := &holder{spool: s}
	h.hold(t, 0, 10)
	if !slices.Equal(h.written, []uint64{0}) {
		t.Errorf("written %v, with the batch on disk", h.written)
	}
	move(t, s, dir, away)
	for i := range uint64(3) {
		h.hold(t, 1+i, 10)
	}
	put(t, s, "b", 100, 10)
	stop := run(t, s, v.send)
	until(t, func() bool { return v.has(100) })
	if stop(); v.has(1) || v.has(2) || v.has(3) || len(h.written) != 1 || len(h.lost) != 0 {
		t.Errorf("sent %v, written %v, lost %v while the disk fails", v.order, h.written, h.lost)
	}
	move(t, s, away, dir)
	stop = run(t, s, v.send)
	drain(t, s) // a second later they are written
	stop()
	if !slices.Equal(h.written, []uint64{0, 1, 2, 3}) || len(h.lost) != 0 || s.Stats().MemoryBytes != 0 {
		t.Errorf("written %v, lost %v, %d bytes in memory when the disk works again", h.written, h.lost, s.Stats().MemoryBytes)
	}
	v.check(t)
	h.hold(t, 7, 10)
	move(t, s, dir, away)
	h.hold(t, 8, 10)
	if err := s.Close(); err == nil || !slices.Equal(h.lost, []uint64{5}) {
		t.Errorf("closed while the disk fails: %v, lost %v", err, h.lost)
	}
	openAt(t, away, Options{Found: func(e measure.Envelope) { found[e.Sequence] = true }})
	if !found[4] || found[5] {
		t.Errorf("found %v", found)
	}
}

// TestHoldWaits: while writing fails, Hold waits for memory, and Put does not.
func TestHoldWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	away := dir + ".away"
	s := openAt(t, dir, Options{MemoryBytes: 4 << 10})
	h := &holder{spool: s}
	move(t, s, dir, away)
	h.hold(t, 0, 5000)
	held := make(chan struct{})
	go func() {
		defer close(held)
		h.hold(t, 1, 10)
	}()
	for i := range uint64(3) {
		put(t, s, "b", 100+i, 3000)
	}
	if lost := s.Stats().Lost; lost["a"].Batches != 0 || lost["b"].Batches != 2 {
		t.Errorf("lost %v", lost)
	}
	select {
	case <-held:
		t.Error("Hold did not wait")
	default:
	}
	move(t, s, away, dir)
	<-held
	s.mu.Lock()
	s.flushMemory()
	s.mu.Unlock()
	if !slices.Equal(h.written, []uint64{0, 1}) {
		t.Errorf("written %v", h.written)
	}
	move(t, s, dir, away)
	h.hold(t, 2, 5000)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	r := record(schemaOf("a"), 3, 1, 10)
	defer r.Release()
	if err := s.Hold(schemaOf("a"), r, func(measure.Key, error) {}); !errors.Is(err, ErrClosed) {
		t.Errorf("Hold while closing: %v", err)
	}
	<-closed
}

// TestUnrecordedFilesStay: no file is deleted before what was told of it is recorded, also
// after a restart, and the folder stays within its limit.
func TestUnrecordedFilesStay(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	refused := errors.New("disk is full")
	record := func() error { return refused }
	options := Options{LimitBytes: 256 << 10, MemoryBytes: 1 << 20, Recorded: func() error { return record() }}
	s := openAt(t, dir, options)
	h := &holder{spool: s}
	stop := run(t, s, v.send)
	for i := range uint64(30) {
		h.hold(t, i, 3000)
	}
	drain(t, s)
	if stop(); len(h.written) != 30 {
		t.Errorf("written %v", h.written)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var found []uint64
	options.Found = func(e measure.Envelope) { found = append(found, e.Sequence) }
	s = openAt(t, dir, options)
	if len(found) != 30 {
		t.Errorf("found %v", found)
	}
	h = &holder{spool: s}
	run(t, s, v.send)
	for i := range uint64(100) {
		h.hold(t, 1000+i, 3000)
	}
	s.mu.Lock()
	used, written := s.diskBytes, len(h.written)
	s.mu.Unlock()
	if used > options.LimitBytes || written >= 100 {
		t.Errorf("%d bytes on disk, %d batches written", used, written)
	}
	s.mu.Lock()
	refused = nil
	s.mu.Unlock()
	drain(t, s)
	until(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.diskBytes < 8<<10 && s.unrecorded == 0
	})
	if len(h.written) != 100 || len(h.lost) != 0 {
		t.Errorf("written %v, lost %v", h.written, h.lost)
	}
	v.check(t)
}

// TestHoldReportsBeforeDelivery: the callback runs before a batch is sent.
func TestHoldReportsBeforeDelivery(t *testing.T) {
	s := openAt(t, t.TempDir(), Options{})
	kept := make(chan bool, 1)
	v := newServer()
	early := false
	run(t, s, func(ctx context.Context, e measure.Envelope) error {
		select {
		case <-kept:
		default:
			early = true
		}
		return v.send(ctx, e)
	})
	for i := range uint64(200) {
		r := record(schemaOf("a"), i, 1, 0)
		if err := s.Hold(schemaOf("a"), r, func(measure.Key, error) { kept <- true }); err != nil {
			t.Fatal(err)
		}
		r.Release()
		drain(t, s)
	}
	if early {
		t.Error("a batch was sent first")
	}
	large := record(schemaOf("a"), 0, 1, payloadMax)
	defer large.Release()
	if err := s.Hold(schemaOf("a"), large, func(measure.Key, error) { t.Error("callback") }); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if lost := s.Stats().DroppedRows; lost != 0 {
		t.Errorf("%d rows are counted as lost", lost)
	}
}
