//go:build long

package clickhouse

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/archive/archivetest"
	"pillion.dev/archive/duckdb"
	"pillion.dev/internal/test/clickhousetest"
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
	a, err := Open(location, Options{RollUp: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	// The rows of the first agent are in all levels, those of the next in all but the last, and so on.
	archivetest.CompareSums(t, a, other, []string{"a", "b", "c", "d"}, func(agent int) {
		due := func(l *level, _ time.Time) bool { return slices.Index(levels, l) < len(levels)-agent }
		if err := a.implicit.rolling.rollUp(t.Context(), due); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Retain(t.Context(), time.Now()); err != nil {
			t.Error(err)
		}
		if agent == len(levels) {
			a.implicit.rolling.stop()
			a.options.RollUp = time.Nanosecond // readers go by the marks at once
		}
	})
	if marks, err := a.readMarks(t.Context(), time.Now()); err != nil || !increasing(marks) {
		t.Errorf("marks of levels: %v, %v", marks, err)
	}
}

// increasing reports whether each level has fewer commits than the one that it is made of.
func increasing(marks map[*level]map[uint64]mark) bool {
	return !slices.ContainsFunc(levels[1:], func(l *level) bool {
		return marks[l][implicitLane].commit >= marks[l.from][implicitLane].commit
	})
}

// TestLongRollUpsOfCluster: each shard rolls up its own rows.
func TestLongRollUpsOfCluster(t *testing.T) { compareSums(t, clickhousetest.StartCluster(t, 2, 2)) }
