package spool

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pillion.dev/measure"
)

// TestUpgrade opens testdata/earlier, which the last version that recorded deliveries in
// the file "position" wrote: ten batches, of which the server had stored five. The file is
// ignored, so that all are sent again under the same keys: none is lost, and the server
// stores each once.
func TestUpgrade(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	if err := os.CopyFS(dir, os.DirFS("testdata/earlier")); err != nil {
		t.Fatal(err)
	}
	stored := []uint64{0, 1, 2, 3, 6}
	s := openAt(t, dir, Options{Window: 1, Found: func(e measure.Envelope) {
		if slices.Contains(stored, e.Sequence) {
			e.Oldest = min(e.Sequence, 4) // as the earlier version sent it
			v.store(e)
		}
	}})
	if len(v.values) != len(stored) {
		t.Fatalf("%d values stored before the upgrade, want %d", len(v.values), len(stored))
	}
	put(t, s, "a", 10, 8)
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	if len(v.values) != 11 {
		t.Errorf("%d values stored, want 11", len(v.values))
	}
	if stats := s.Stats(); stats.SentBatches != 11 || stats.Damaged != 0 || stats.DroppedBatches != 0 {
		t.Errorf("got %+v", stats)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}
