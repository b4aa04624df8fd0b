//go:build long

package clickhouse

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive/archivetest"
	"pillion.dev/archive/duckdb"
	"pillion.dev/internal/test/clickhousetest"
	"pillion.dev/measure"
)

// TestLongRollUps: sums from roll-ups, of rows that are in none yet, and of parts of windows are
// those of all rows.
func TestLongRollUps(t *testing.T) { compareSums(t, clickhousetest.Start(t)) }

func compareSums(t *testing.T, servers *clickhousetest.Cluster) {
	t.Helper()
	other, err := duckdb.Open(filepath.Join(t.TempDir(), "archive.duckdb"), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	_, location, _ := strings.Cut(servers.URL("rolled"), ":")
	a, err := Open(location, Options{RollUp: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	archivetest.CompareSums(t, a, other, func() {
		rollUp(t, a)
		if _, err := a.Retain(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
		a.implicit.rolling.stop()
	})
}

// rollUp waits until all commits of the implicit lane are in all roll-ups.
func rollUp(t *testing.T, a *Archive) {
	t.Helper()
	commit := a.implicit.streams[measure.Flows.Name].commit
	for {
		marks, err := a.readMarks(t.Context(), time.Now().Add(-a.settled()))
		if err != nil {
			t.Fatal(err)
		}
		if m := marks[hourly][implicitLane]; m.commit == commit {
			return
		}
		a.mutex.Lock()
		failed := a.unrolled[implicitLane]
		a.mutex.Unlock()
		if failed != nil {
			t.Fatal(failed)
		}
		if err := pause(t.Context(), 20*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongRollUpsOfCluster: each shard rolls up its own rows.
func TestLongRollUpsOfCluster(t *testing.T) { compareSums(t, clickhousetest.StartCluster(t, 2, 2)) }
