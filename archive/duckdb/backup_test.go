package duckdb

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"pillion.dev/archive"
)

// TestBackupWhileStoring: a copy that is made while batches are stored has the rows of
// exactly the batches that its delivery states have, so that agents can continue with it.
func TestBackupWhileStoring(t *testing.T) {
	folder := t.TempDir()
	a, err := Open(filepath.Join(folder, "it's.duckdb"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	a.SetRetention("everything", archive.Retention{Rows: 1e9})
	const batches = 200
	schema := everything
	put := func(to *Archive, n uint64) bool {
		new, rejected := store(t, to, batch(t, "a", schema, n, 0, 3))
		if len(rejected) != 0 {
			t.Errorf("rejected: %v", rejected)
		}
		return new[0]
	}
	for n := range uint64(50) {
		put(a, n)
	}
	var storing sync.WaitGroup
	storing.Go(func() {
		for n := uint64(50); n < batches; n++ {
			put(a, n)
		}
	})
	path, err := a.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	storing.Wait()
	if _, err := os.Stat(path + ".wal"); err == nil {
		t.Error("the copy has a log")
	}
	moved := filepath.Join(folder, "moved.duckdb")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	c, err := Open(moved, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	delivered, err := c.Delivered(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	had := delivered["everything"].Batches
	if got := count(t, c, "SELECT count(*) FROM everything"); had < 50 || got != 3*had || delivered["everything"].Rows != got {
		t.Errorf("%d rows, delivered %+v", got, delivered)
	}
	fresh := int64(0)
	for n := range uint64(batches) {
		if put(c, n) {
			fresh++
		}
	}
	if got := count(t, c, "SELECT count(*) FROM everything"); got != 3*batches || fresh != batches-had {
		t.Errorf("after sending all again: %d rows, %d batches new, want %d", got, fresh, batches-had)
	}
	if streams, err := c.Streams(t.Context()); err != nil || len(streams) != 1 {
		t.Errorf("streams %v, %v", streams, err)
	}
}

// TestInterruptedBackupLeavesNothing: its folder may have the size of the archive.
func TestInterruptedBackupLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	a, err := Open(filepath.Join(folder, "archive.duckdb"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	store(t, a, batch(t, "a", everything, 0, 0, 3))
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(filepath.Join(folder, "archive.duckdb.backup", fileName)); err == nil {
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	_, err = a.Backup(ctx)
	close(stop)
	if left, listed := filepath.Glob(filepath.Join(folder, "*.backup")); listed != nil || err != nil && len(left) != 0 {
		t.Errorf("after %v: left %v, %v", err, left, listed)
	}
	if _, err := a.Backup(t.Context()); err != nil {
		t.Errorf("the next backup: %v", err)
	}
}

// TestBackupAfterOneThatStayedAttached: a backup detaches what an interrupted one has left.
func TestBackupAfterOneThatStayedAttached(t *testing.T) {
	folder := t.TempDir()
	a, err := Open(filepath.Join(folder, "archive.duckdb"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	store(t, a, batch(t, "a", everything, 0, 0, 3))
	path := filepath.Join(folder, "archive.duckdb.backup", fileName)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := a.writer.exec(t.Context(), "ATTACH '"+path+"' AS backup_copy"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := a.Backup(t.Context()); err != nil {
			t.Errorf("the next backup: %v", err)
		}
	}
}
