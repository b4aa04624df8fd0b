package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/spool"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/oml/omsp/collect"
)

// TestKilledWhileTheDiskFails: whatever the disk refuses, and whenever the agent is killed,
// each row that an application reports is stored once, and each acknowledged one is.
func TestKilledWhileTheDiskFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a disk requires root")
	}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newRig(t, rand.New(rand.NewPCG(seed, 0)))
			for range 120 {
				w.step(t)
			}
			w.finish(t)
		})
	}
}

// rig is an application, an agent on a small disk, and a server.
type rig struct {
	draws  *rand.Rand
	disk   string
	agent  *agent
	tables []collect.Table

	mu    sync.Mutex
	sent  []int64 // of the application, by table
	acked []int64
	// life counts the agents: a killed one acknowledges nothing.
	life   int
	keys   map[measure.Key]bool
	stored []map[int64]int // how often each row was stored, by table
}

func newRig(t *testing.T, draws *rand.Rand) *rig {
	w := &rig{draws: draws, keys: map[measure.Key]bool{}, sent: make([]int64, 2), acked: make([]int64, 2)}
	w.stored = []map[int64]int{{}, {}}
	w.disk = mountSmall(t)
	w.begin(t)
	return w
}

// mountSmall mounts a file system that is soon full.
func mountSmall(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=512k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// begin starts an agent; the application sends again what it does not have.
func (w *rig) begin(t *testing.T) {
	t.Helper()
	k, err := Open(w.disk, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spool.Open(filepath.Join(w.disk, "spool"), spool.Options{Found: k.Found, Recorded: k.Recorded, LimitBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Use(s); err != nil {
		t.Fatal(err)
	}
	w.agent = &agent{k, s}
	t.Cleanup(w.agent.end)
	w.tables = []collect.Table{w.agent.table(t, "lab", table), w.agent.table(t, "other", table)}
	for i, to := range w.tables {
		last := w.agent.last(t, 7, to)
		if last < w.acked[i] {
			t.Errorf("table %d: the agent resumes after %d, %d are acknowledged", i, last, w.acked[i])
		}
		w.report(i, last+1, w.sent[i])
	}
}

// report sends rows of the application.
func (w *rig) report(i int, first, last int64) {
	if first > last {
		return
	}
	r := rowsOf(w.tables[i], 7, first, last)
	defer r.Release()
	life := w.life
	w.agent.Store(w.tables[i].Schema, r, func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && life == w.life {
			w.acked[i] = max(w.acked[i], last)
		}
	})
}

func (w *rig) step(t *testing.T) {
	switch w.draws.IntN(12) {
	case 0:
		w.fill(t, w.draws.IntN(3)*4096)
	case 1, 2:
		w.free(t)
	case 3:
		w.breakMarks(t)
	case 4:
		w.mendMarks(t)
	case 5, 6:
		w.deliver(t)
	case 7:
		w.kill(t)
	case 8: // as every second
		time.Sleep(time.Duration(w.draws.IntN(20)) * time.Millisecond)
	default:
		i, n := w.draws.IntN(2), 1+w.draws.Int64N(5)
		w.sent[i] += n
		w.report(i, w.sent[i]-n+1, w.sent[i])
	}
}

// fill leaves some bytes of the disk.
func (w *rig) fill(t *testing.T, left int) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(w.disk, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return // no space even for that
	}
	defer file.Close()
	for err == nil {
		_, err = file.Write(make([]byte, 4096))
	}
	info, statErr := file.Stat()
	if !errors.Is(err, unix.ENOSPC) || statErr != nil {
		t.Fatal(err, statErr)
	}
	if err := file.Truncate(max(info.Size()-int64(left), 0)); err != nil {
		t.Fatal(err)
	}
}

func (w *rig) free(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(w.disk, "filler")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// breakMarks lets every write of progress fail, as if its part of the disk were defective.
func (w *rig) breakMarks(t *testing.T) {
	t.Helper()
	m := w.agent.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file.Close()
	m.path = filepath.Join(w.disk, "none", "oml.marks")
}

func (w *rig) mendMarks(t *testing.T) {
	t.Helper()
	m := w.agent.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	m.path = filepath.Join(w.disk, "oml.marks")
	file, err := os.OpenFile(m.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	m.file.Close()
	m.file = file
}

// deliver lets the agent deliver for a moment. Some answers are lost.
func (w *rig) deliver(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+w.draws.IntN(20))*time.Millisecond)
	defer cancel()
	lose := w.draws.IntN(2) == 0
	if err := w.agent.spool.Run(ctx, func(ctx context.Context, e measure.Envelope) error {
		if err := w.store(e); err != nil || !lose {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}); err != nil {
		t.Fatal(err)
	}
}

// store is the server's.
func (w *rig) store(e measure.Envelope) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[e.Key] {
		return nil
	}
	w.keys[e.Key] = true
	_, r, err := e.Decode()
	if err != nil {
		return err
	}
	defer r.Release()
	for i, to := range w.tables {
		if e.Stream == to.Schema.Name {
			for _, seq := range r.Column(3).(*array.Int64).Int64Values() {
				w.stored[i][seq]++
			}
		}
	}
	return nil
}

// kill continues with a copy of the disk, as it was when the agent was killed.
func (w *rig) kill(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	w.life++
	w.mu.Unlock()
	next := mountSmall(t)
	w.free(t) // the filler need not be copied
	for path, text := range snapshot(t, w.disk) {
		to := filepath.Join(next, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	w.agent.end()
	w.disk = next
	w.begin(t)
}

// snapshot reads the files of a folder as they were at one moment: when two readings in a row
// agree.
func snapshot(t *testing.T, folder string) map[string]string {
	t.Helper()
	var before map[string]string
	for {
		files := map[string]string{}
		err := fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(filepath.Join(folder, path))
			files[path] = string(text)
			return err
		})
		if err == nil && before != nil && maps.Equal(before, files) {
			return files
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		before = files
	}
}

// finish waits until everything has arrived, on a disk that works.
func (w *rig) finish(t *testing.T) {
	t.Helper()
	w.free(t)
	w.kill(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- w.agent.spool.Run(ctx, func(_ context.Context, e measure.Envelope) error { return w.store(e) })
	}()
	waiting, stop := context.WithTimeout(t.Context(), hang.Limit)
	defer stop()
	err := w.agent.spool.Drain(waiting)
	cancel()
	if err := errors.Join(err, <-ended); err != nil {
		t.Fatal(err)
	}
	for i, rows := range w.stored {
		for seq := int64(1); seq <= w.sent[i]; seq++ {
			if n := rows[seq]; n != 1 {
				t.Errorf("table %d: row %d of %d (%d acknowledged) is stored %d times", i, seq, w.sent[i], w.acked[i], n)
			}
		}
	}
}
