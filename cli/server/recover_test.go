package server

import (
	"os"
	"path/filepath"
	"testing"
)

// TestArchiveRecover: an archive without damage is recovered whole, once its server has stopped, and a server
// starts with it.
func TestArchiveRecover(t *testing.T) {
	folder := t.TempDir() + "/data"
	w, stop := serving(t, folder)
	agent := connect(t, w, join(t, w, "a"))
	send(t, agent, envelope(t, "a", 0))
	to := filepath.Join(t.TempDir(), "new.duckdb")
	recover := func() int { return Main([]string{"archive", "recover", "--data", folder, to}) }
	if code := recover(); code == 0 {
		t.Error("recovered the archive of a running server")
	}
	stop()
	if code := recover(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	if code := recover(); code == 0 {
		t.Error("replaced a file")
	}
	if err := os.Rename(to, filepath.Join(folder, "archive.duckdb")); err != nil {
		t.Fatal(err)
	}
	_, stop = serving(t, folder)
	stop()
}
