package spool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pillion.dev/bus"
	"pillion.dev/measure"
)

func TestDeliversInOrderAndDeletes(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	s := openAt(t, dir, Options{LimitBytes: 1 << 20, Window: 1})
	for i := range uint64(100) {
		put(t, s, []string{"a", "b"}[i%2], i, 200)
	}
	stop := run(t, s, v.send)
	drain(t, s)
	stop()
	v.check(t)
	bySequence := func(x, y measure.Key) int { return cmp.Compare(x.Sequence, y.Sequence) }
	if len(v.order) != 100 || !slices.IsSortedFunc(v.order, bySequence) {
		t.Errorf("%d arrived, in the order %v", len(v.order), v.order)
	}
	stats := s.Stats()
	if stats.SentBatches != 100 || stats.SentRows != 100 || stats.Batches != 0 || stats.Bytes != 0 || stats.DroppedBatches != 0 {
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

func TestLostAnswersAndFailuresStoreOnce(t *testing.T) {
	v := newServer()
	replies := 0
	v.fail = func(measure.Envelope) (before, after error) {
		replies++
		switch replies % 5 {
		case 0:
			return errAway, nil
		case 1:
			return nil, errAway // stored, but the answer is lost
		}
		return nil, nil
	}
	s := openAt(t, t.TempDir(), Options{LimitBytes: 1 << 20, Window: 8})
	run(t, s, v.send)
	for i := range uint64(60) {
		put(t, s, []string{"a", "b", "c"}[i%3], i, 100)
	}
	drain(t, s)
	v.check(t)
	if len(v.values) != 60 || s.Stats().SentRows != 60 {
		t.Errorf("%d values stored, %d rows reported as sent, want 60", len(v.values), s.Stats().SentRows)
	}
}

func TestFullDropsTheOldestAndCounts(t *testing.T) {
	v := newServer()
	s := openAt(t, t.TempDir(), Options{LimitBytes: 64 << 10})
	for i := range uint64(200) {
		put(t, s, []string{"a", "b"}[i%2], i, 1000)
		if s.diskBytes > 64<<10 {
			t.Fatalf("%d bytes on the disk", s.diskBytes)
		}
	}
	before := s.Stats()
	if before.DroppedBatches == 0 || before.Batches+before.DroppedBatches != 200 {
		t.Errorf("%d held and %d dropped of 200", before.Batches, before.DroppedBatches)
	}
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	if int64(len(v.values)) != before.Batches || v.values[199] != 1 || v.values[0] != 0 {
		t.Errorf("%d arrived of %d; the newest %d times, the oldest %d", len(v.values), before.Batches, v.values[199], v.values[0])
	}
	lost := s.Stats().Lost
	if lost["a"].Rows+lost["b"].Rows != before.DroppedRows || lost["a"].Batches == 0 || lost["b"].Batches == 0 {
		t.Errorf("by stream: %v, in all %d", lost, before.DroppedRows)
	}
}

// A batch in flight whose file is dropped ends once: sent or dropped.
func TestFullWhileInFlight(t *testing.T) {
	v := newServer()
	flying, release := make(chan struct{}, 1000), make(chan struct{})
	send := func(ctx context.Context, e measure.Envelope) error {
		flying <- struct{}{}
		if e.Sequence%2 == 0 {
			<-release // ignores the end of its context, and stores
			return v.send(context.Background(), e)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-release:
			return v.send(ctx, e)
		}
	}
	s := openAt(t, t.TempDir(), Options{LimitBytes: 32 << 10, Window: 8})
	run(t, s, send)
	for i := range uint64(8) {
		put(t, s, "a", i, 1000)
		<-flying
	}
	for i := range uint64(100) {
		put(t, s, "a", 8+i, 1000)
	}
	close(release)
	drain(t, s)
	v.check(t)
	stats := s.Stats()
	if stats.SentBatches+stats.DroppedBatches != 108 || int64(len(v.values)) != stats.SentBatches || stats.DroppedBatches == 0 {
		t.Errorf("%d sent, %d dropped, %d stored", stats.SentBatches, stats.DroppedBatches, len(v.values))
	}
	for _, n := range []uint64{0, 2, 4, 6} {
		if v.values[n] != 1 {
			t.Errorf("batch %d was acknowledged and is stored %d times", n, v.values[n])
		}
	}
}

func TestRejectedIsStoredAndCounted(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	v.fail = func(e measure.Envelope) (before, after error) {
		if e.Stream == "bad" {
			return fmt.Errorf("store: %w: no such column", bus.ErrRejected), nil
		}
		return nil, nil
	}
	s := openAt(t, dir, Options{RejectedBytes: 8 << 10})
	run(t, s, v.send)
	for i := range uint64(20) {
		put(t, s, []string{"bad", "good"}[i%2], i, 1000)
	}
	drain(t, s)
	v.check(t)
	if stats := s.Stats(); stats.Rejected != 10 || stats.SentBatches != 10 || stats.DroppedBatches != 0 {
		t.Errorf("got %+v", stats)
	}
	total := int64(0)
	files, err := os.ReadDir(filepath.Join(dir, rejectedFolder))
	for _, file := range files {
		info, _ := file.Info()
		total += info.Size()
	}
	if err != nil || len(files) == 0 || total > 8<<10 {
		t.Errorf("%d files of %d bytes, %v", len(files), total, err)
	}
}

func TestEarlierEpochsComeFirst(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	const epochs = 30
	for i := range uint64(epochs) {
		s := openAt(t, dir, Options{})
		put(t, s, "a", 2*i, 10)
		put(t, s, "a", 2*i+1, 10)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := openAt(t, dir, Options{Window: 1})
	if got := s.Stats().Batches; got != 2*epochs {
		t.Fatalf("%d batches after %d restarts", got, epochs)
	}
	put(t, s, "a", 2*epochs, 10)
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	if len(v.values) != 2*epochs+1 || v.order[2*epochs].Epoch != s.epoch {
		t.Errorf("%d values; the last is of epoch %x, want %x", len(v.values), v.order[len(v.order)-1].Epoch, s.epoch)
	}
}

func TestAcknowledgedIsNotSentAgain(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	s := openAt(t, dir, Options{})
	for i := range uint64(10) {
		put(t, s, "a", i, 10)
	}
	v.fail = func(e measure.Envelope) (before, after error) {
		if e.Sequence == 3 {
			return errAway, nil
		}
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	came := make(chan struct{}, 100)
	go func() {
		for range 9 {
			<-came
		}
		cancel()
	}()
	if err := s.Run(ctx, func(ctx context.Context, e measure.Envelope) error {
		err := v.send(ctx, e)
		if err == nil {
			came <- struct{}{}
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openAt(t, dir, Options{})
		if got := s.Stats().Batches; got != 1 {
			t.Fatalf("%d batches are held, want the one that did not arrive", got)
		}
	}
	v.fail = nil
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	if len(v.values) != 10 {
		t.Errorf("%d values", len(v.values))
	}
}

// TestDamagedFilesAreSkippedAndCounted: batches that were put and are not there any more are counted once, by
// whatever they were lost; what was never put, as the torn end that a kill leaves, or was delivered is not.
func TestDamagedFilesAreSkippedAndCounted(t *testing.T) {
	rewrite := func(change func(data []byte) []byte) func(string) error {
		return func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, change(data), 0o600))
		}
	}
	other := func(name string, damage func(string) error) func(string) error {
		return func(path string) error { return damage(filepath.Join(filepath.Dir(path), name)) }
	}
	torn := func(d []byte) []byte { return append(d, d[:len(d)/10-7]...) }
	for _, test := range []struct {
		name       string
		damage     func(path string) error
		held, lost int64
	}{
		{"cut in the last", rewrite(func(d []byte) []byte { return d[:len(d)-7] }), 7, 1},
		{"halved", rewrite(func(d []byte) []byte { return d[:len(d)/2] }), 3, 5},
		{"bit", rewrite(func(d []byte) []byte { d[len(d)/2] ^= 1; return d }), 7, 1},
		{"bit of a delivered one", rewrite(func(d []byte) []byte { d[60] ^= 1; return d }), 8, 0},
		{"all zero", rewrite(func(d []byte) []byte { return make([]byte, len(d)) }), 0, 8},
		{"empty", rewrite(func([]byte) []byte { return nil }), 0, 8},
		{"deleted", os.Remove, 0, 8},
		{"unreadable", func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, 0, 8},
		{"rubbish before", rewrite(func(d []byte) []byte { return append(bytes.Repeat([]byte("PSP1"), 99), d...) }), 8, 0},
		{"torn end of a batch that was never put", rewrite(torn), 8, 0},
		{"counts deleted", other(countsFile, os.Remove), 8, 0},
		{"counts zero", other(countsFile, rewrite(func(d []byte) []byte { return make([]byte, len(d)) })), 8, 0},
		{"counts halved", other(countsFile, rewrite(func(d []byte) []byte { return d[:len(d)/2] })), 8, 0},
		{"counts unreadable", other(countsFile, func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }), 8, 0},
		{"lock deleted", other("lock", os.Remove), 8, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, v := t.TempDir(), newServer()
			s := openAt(t, dir, Options{Window: 1})
			for i := range uint64(10) {
				put(t, s, "a", i, 100)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if err := s.Run(ctx, func(ctx context.Context, e measure.Envelope) error { // the first two
				if len(v.order) == 2 {
					cancel()
				}
				return v.send(ctx, e)
			}); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
			if err := test.damage(files[0]); err != nil {
				t.Fatal(err)
			}
			s = openAt(t, dir, Options{})
			stats := s.Stats()
			if stats.Batches != test.held || stats.Damaged != test.lost || stats.DroppedBatches != test.lost || stats.DroppedRows != test.lost ||
				stats.WrittenRows != test.held+test.lost || stats.Lost[""].Rows != test.lost {
				t.Errorf("want %d held and %d lost, got %+v", test.held, test.lost, stats)
			}
			put(t, s, "a", 10, 100)
			run(t, s, v.send)
			drain(t, s)
			v.check(t)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if again := openAt(t, dir, Options{}).Stats(); again.DroppedBatches != 0 || again.Batches != 0 {
				t.Errorf("once more: %+v", again)
			}
		})
	}
}

func TestDamageWhileOpenIsCounted(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	s := openAt(t, dir, Options{})
	put(t, s, "a", 0, 100)
	put(t, s, "a", 1, 100)
	file, err := os.OpenFile(s.path(s.queue[0].file), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteAt([]byte("damage"), 200)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	if stats := s.Stats(); stats.Damaged != 1 || stats.Lost["a"].Rows != 1 || stats.SentRows != 1 {
		t.Errorf("got %+v", stats)
	}
}

func TestFolderIsLocked(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, dir, Options{})
	_, err := Open(dir, Options{})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, dir, Options{})
}

func TestLargeRecordIsSplit(t *testing.T) {
	v := newServer()
	s := openAt(t, t.TempDir(), Options{})
	schema := schemaOf("a")
	r := record(schema, 0, 20, 1<<20)
	defer r.Release()
	if err := s.Put(schema, r); err != nil {
		t.Fatal(err)
	}
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	if len(v.values) != 20 || len(v.order) < 3 {
		t.Errorf("%d values in %d batches", len(v.values), len(v.order))
	}
	row := record(schema, 0, 1, 9<<20)
	defer row.Release()
	if err := s.Put(schema, row); !errors.Is(err, ErrTooLarge) || s.Stats().DroppedRows != 1 {
		t.Errorf("got %v, %+v", err, s.Stats())
	}
	if err := s.Put(schemaOf("b"), r); err == nil {
		t.Error("a record of another schema is accepted")
	}
}

func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root, and CI must be root")
		}
		t.Skip("needs root to mount a small file system")
	}
	dir, v := t.TempDir(), newServer()
	if err := unix.Mount("spool", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatalf("mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	s := openAt(t, dir, Options{MemoryBytes: 64 << 10})
	for i := range uint64(300) {
		put(t, s, "a", i, 2000)
	}
	full := s.Stats()
	if full.MemoryBytes == 0 || full.MemoryBytes > 64<<10 || full.WriteErrors == 0 || full.DiskError == "" || full.Batches+full.DroppedBatches != 300 {
		t.Errorf("got %+v", full)
	}
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	after := s.Stats()
	if after.SentBatches+after.DroppedBatches != 300 || int64(len(v.values)) != after.SentBatches {
		t.Errorf("%d sent, %d dropped, %d stored", after.SentBatches, after.DroppedBatches, len(v.values))
	}
	s.mu.Lock()
	s.tryDisk = s.tryDisk.Add(-diskRetry)
	s.mu.Unlock()
	put(t, s, "a", 300, 2000)
	drain(t, s)
	if got := s.Stats(); got.MemoryBytes != 0 || got.DiskError != "" || v.values[300] != 1 {
		t.Errorf("after space was freed: %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestMemoryGoesToTheDiskWhenThereIsRoom(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	s := openAt(t, dir, Options{})
	put(t, s, "a", 0, 10)
	// Without the folder, creating the next file fails as on a full disk.
	s.mu.Lock()
	s.seal()
	s.dir = filepath.Join(dir, "gone")
	s.mu.Unlock()
	for i := range uint64(5) {
		put(t, s, "a", 1+i, 10)
	}
	if got := s.Stats(); got.MemoryBytes == 0 || got.Batches != 6 {
		t.Errorf("got %+v", got)
	}
	s.mu.Lock()
	s.dir = dir
	s.flushMemory()
	s.mu.Unlock()
	put(t, s, "a", 6, 10)
	if got := s.Stats(); got.MemoryBytes != 0 || got.Batches != 7 {
		t.Errorf("got %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, dir, Options{Window: 1})
	run(t, s, v.send)
	drain(t, s)
	v.check(t)
	for i, key := range v.order {
		if key.Sequence != uint64(i) {
			t.Errorf("batch %d arrived as number %d", key.Sequence, i)
		}
	}
	if len(v.values) != 7 {
		t.Errorf("%d values", len(v.values))
	}
}

func BenchmarkPutAndDeliver(b *testing.B) {
	s := openAt(b, b.TempDir(), Options{})
	schema := schemaOf("a")
	r := record(schema, 0, 4096, 32)
	defer r.Release()
	envelope, err := measure.Encode(measure.Key{Stream: "a"}, r)
	if err != nil {
		b.Fatal(err)
	}
	run(b, s, func(context.Context, measure.Envelope) error { return nil })
	b.SetBytes(int64(len(envelope.Payload)))
	for b.Loop() {
		if err := s.Put(schema, r); err != nil {
			b.Fatal(err)
		}
	}
	drain(b, s)
	b.ReportMetric(float64(s.Stats().SentRows)/b.Elapsed().Seconds(), "rows/s")
	if lost := s.Stats().DroppedRows; lost > 0 {
		b.Fatalf("%d rows dropped", lost)
	}
}

// TestAccountIsClosed: whatever happens to a row that was written, it is counted once.
func TestAccountIsClosed(t *testing.T) {
	s := openAt(t, t.TempDir(), Options{LimitBytes: 40 << 10})
	check := func(when string) Stats {
		t.Helper()
		stats := s.Stats()
		if sum := stats.SentRows + stats.HeldRows + stats.DroppedRows + stats.RejectedRows; stats.WrittenRows != sum {
			t.Errorf("%s: %d rows written, %d accounted for: %+v", when, stats.WrittenRows, sum, stats)
		}
		return stats
	}
	for n := range uint64(200) {
		put(t, s, "a", n, 500)
		check("written")
	}
	if check("full").DroppedRows == 0 {
		t.Error("nothing was dropped")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func(_ context.Context, e measure.Envelope) error {
			if e.Sequence%3 == 0 {
				return bus.ErrRejected
			}
			return nil
		})
	}()
	if err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := errors.Join(<-ended, s.Close()); err != nil {
		t.Fatal(err)
	}
	if end := check("drained"); end.HeldRows != 0 || end.RejectedRows == 0 || end.SentRows == 0 {
		t.Errorf("at the end: %+v", end)
	}
	both := s.Stats().Add(s.Stats())
	if both.WrittenRows != 2*s.Stats().WrittenRows || both.Lost == nil {
		t.Errorf("sum: %+v", both)
	}
}

// TestCountsThatCannotBeCleared: a file stays until its counts are cleared, so that what was delivered does not seem to
// be lost after a kill.
func TestCountsThatCannotBeCleared(t *testing.T) {
	dir, v := t.TempDir(), newServer()
	s := openAt(t, dir, Options{})
	put(t, s, "a", 0, 100)
	broken, err := os.Open(filepath.Join(dir, countsFile)) // which cannot be written
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	counts := s.counts.file
	s.counts.file = broken
	s.seal()
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	if err := s.Run(ctx, func(ctx context.Context, e measure.Envelope) error {
		defer cancel()
		return v.send(ctx, e)
	}); err != nil {
		t.Fatal(err)
	}
	files := func() int {
		found, _ := filepath.Glob(filepath.Join(dir, "*"+suffix))
		return len(found)
	}
	if n := files(); n != 1 {
		t.Errorf("%d files while the counts cannot be cleared", n)
	}
	s.mu.Lock()
	s.counts.file = counts
	s.unpin()
	s.mu.Unlock()
	broken.Close()
	if n := files(); n != 0 {
		t.Errorf("%d files then", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if again := openAt(t, dir, Options{}); again.Stats().Damaged != 0 {
		t.Errorf("%d batches seem to be lost", again.Stats().Damaged)
	}
}
