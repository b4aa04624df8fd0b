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

// TestHoldReports: the callback runs when the batch is on disk; if writing fails, when it
// is written later, or it and all earlier batches have been delivered.
func TestHoldReports(t *testing.T) {
	dir, v := filepath.Join(t.TempDir(), "spool"), newServer()
	away := dir + ".away"
	found := map[uint64]bool{}
	s := openAt(t, dir, Options{MemoryBytes: 4 << 10, Window: 1})
	h := &holder{spool: s}
	h.hold(t, 0, 10)
	if !slices.Equal(h.written, []uint64{0}) {
		t.Errorf("written %v, with the batch on disk", h.written)
	}
	move(t, s, dir, away)
	for i := range uint64(3) {
		h.hold(t, 1+i, 10)
	}
	if len(h.written) != 1 || len(h.lost) != 0 {
		t.Errorf("written %v, lost %v while the disk fails", h.written, h.lost)
	}
	move(t, s, away, dir)
	s.mu.Lock()
	s.flushMemory()
	s.mu.Unlock()
	if !slices.Equal(h.written, []uint64{0, 1, 2, 3}) {
		t.Errorf("written %v when all are on disk", h.written)
	}
	move(t, s, dir, away)
	h.hold(t, 4, 10)
	h.hold(t, 5, 3000)
	h.hold(t, 6, 3000) // drops earlier ones from memory
	move(t, s, away, dir)
	stop := run(t, s, v.send)
	drain(t, s)
	stop() // the next batch is to stay
	if !slices.Equal(h.written, []uint64{0, 1, 2, 3, 6}) || !slices.Equal(h.lost, []uint64{4, 5}) {
		t.Errorf("written %v, lost %v", h.written, h.lost)
	}
	h.hold(t, 7, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, dir, Options{Found: func(e measure.Envelope) { found[e.Sequence] = true }})
	if !found[7] {
		t.Errorf("found %v", found)
	}
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
