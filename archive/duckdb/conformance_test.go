package duckdb

import (
	"path/filepath"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/archive/archivetest"
)

func TestConformance(t *testing.T) {
	archivetest.Run(t, func(t testing.TB, folder string) archive.Archive {
		t.Helper()
		return open(t, filepath.Join(folder, "archive"), Options{})
	})
}
