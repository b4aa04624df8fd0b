//go:build long

package server

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"pillion.dev/agent/identity"
	"pillion.dev/server"
)

// TestLongBackupUnderLoad: a backup of a running server, restored elsewhere, has every row that
// was acknowledged before it, once; agents continue with the restored server, and all
// that it acknowledges is stored once.
func TestLongBackupUnderLoad(t *testing.T) {
	base := t.TempDir()
	folder, destination, restored := filepath.Join(base, "data"), filepath.Join(base, "backup"), filepath.Join(base, "restored")
	w, stop := serving(t, folder)
	senders := []*sender{{own: join(t, w, "a")}, {own: join(t, w, "b")}}
	for _, s := range senders {
		s.start(t, w)
		until(t, "batches are acknowledged", func() bool { return s.acked.Load() > 10 })
	}
	var before, after []uint64
	for _, s := range senders {
		before = append(before, s.acked.Load())
	}
	if code := Main([]string{"backup", destination, "--data", folder}); code != 0 {
		t.Fatalf("backup: exit code %d", code)
	}
	for i, s := range senders {
		until(t, "batches are acknowledged after the backup", func() bool { return s.acked.Load() > before[i]+20 })
	}
	if err := senders[0].own.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code := Main([]string{"backup", destination, "--data", folder}); code == 0 {
		t.Error("a second backup overwrote the first")
	}
	for _, s := range senders {
		s.halt()
		after = append(after, s.acked.Load())
	}
	stop()
	if left, err := filepath.Glob(filepath.Join(folder, "*.backup")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if code := Main([]string{"restore", destination, "--data", folder}); code == 0 {
		t.Error("restored over a data directory")
	}
	if code := Main([]string{"restore", destination, "--data", restored, "--previous", folder}); code != 0 {
		t.Fatalf("restore: exit code %d", code)
	}
	w, stop = serving(t, restored)
	if w.First {
		t.Error("the restored server takes this for its first start")
	}
	for i, s := range senders {
		s.start(t, w)
		until(t, "batches are acknowledged by the restored server", func() bool { return s.acked.Load() > after[i]+10 })
		s.halt()
	}
	stop()
	for i, s := range senders {
		got := storedBatches(t, restored, s.own.Name())
		for sequence := range s.acked.Load() {
			if _, found := slices.BinarySearch(got, sequence); !found && (sequence < before[i] || sequence >= after[i]) {
				t.Errorf("batch %d of %s is lost; the backup began at %d, the restored server at %d", sequence, s.own.Name(), before[i], after[i])
			}
		}
	}
}

// sender sends batches one after another, as an agent whose spool has nothing older.
type sender struct {
	own   *identity.Identity
	acked atomic.Uint64 // the batches below it
	stop  chan struct{}
	ended sync.WaitGroup
}

func (s *sender) start(t *testing.T, w server.Welcome) {
	agent := connect(t, w, s.own)
	s.stop = make(chan struct{})
	s.ended.Go(func() {
		for {
			e := envelope(t, s.own.Name(), s.acked.Load())
			e.Oldest = e.Sequence
			if agent.Send(t.Context(), e) == nil {
				s.acked.Add(1)
			}
			select {
			case <-s.stop:
				agent.Close()
				return
			default:
			}
		}
	})
}

func (s *sender) halt() {
	close(s.stop)
	s.ended.Wait()
}
