//go:build long

package clickhouse

import (
	"path/filepath"
	"testing"

	"pillion.dev/archive/archivetest"
	"pillion.dev/archive/duckdb"
	"pillion.dev/internal/test/clickhousetest"
)

// TestLongCompare: both archives answer the same about the same rows.
func TestLongCompare(t *testing.T) {
	other, err := duckdb.Open(filepath.Join(t.TempDir(), "archive.duckdb"), duckdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	archivetest.Compare(t, open(t, clickhousetest.Start(t).URL("compare")), other)
}
