package server

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"pillion.dev/bus/bustest"
)

// TestState: the state of a single server becomes that of a fleet, once, and the export of that is a
// directory with the same state, with which a single server starts.
func TestState(t *testing.T) {
	base := t.TempDir()
	folder, exported := filepath.Join(base, "data"), filepath.Join(base, "exported")
	w, stop := serving(t, folder)
	own := join(t, w, "a")
	if code := Main([]string{"state", "import", "--data", folder, "--nats", "tls://127.0.0.1:1"}); code == 0 {
		t.Error("imported the state of a running server")
	}
	stop()
	c := bustest.Start(t, folder)
	for range 2 { // the second one finds nothing to do
		if code := Main([]string{"state", "import", "--data", folder, "--nats", c.URL()}); code != 0 {
			t.Fatalf("import: exit code %d", code)
		}
	}
	if code := Main([]string{"state", "export", exported, "--data", folder, "--nats", c.URL()}); code != 0 {
		t.Fatalf("export: exit code %d", code)
	}
	if code := Main([]string{"state", "export", exported, "--data", folder, "--nats", c.URL()}); code == 0 {
		t.Error("exported over another export")
	}
	for _, name := range []string{"agents.json", "tokens.json", "oml.json", "sessions.json", "assignments.json", "revocations.json", "authority/authority.pem"} {
		want, err := os.ReadFile(filepath.Join(folder, name))
		got, failed := os.ReadFile(filepath.Join(exported, name))
		if string(got) != string(want) || errors.Is(err, fs.ErrNotExist) != errors.Is(failed, fs.ErrNotExist) {
			t.Errorf("%s is %q, %v, and was %q, %v", name, got, failed, want, err)
		}
	}
	w, stop = serving(t, exported)
	defer stop()
	if w.First {
		t.Error("the exported directory is taken for a first start")
	}
	send(t, connect(t, w, own), envelope(t, "a", 1))
}

// TestStateOfAnotherFleet: a fleet that has a state keeps it.
func TestStateOfAnotherFleet(t *testing.T) {
	base := t.TempDir()
	folder := filepath.Join(base, "data")
	_, stop := serving(t, folder)
	stop()
	c := bustest.Start(t, folder)
	if code := Main([]string{"state", "import", "--data", folder, "--nats", c.URL()}); code != 0 {
		t.Fatalf("import: exit code %d", code)
	}
	if err := os.Remove(filepath.Join(folder, "tokens.json")); err != nil {
		t.Fatal(err)
	}
	_, stop = serving(t, folder) // with other tokens
	stop()
	if code := Main([]string{"state", "import", "--data", folder, "--nats", c.URL()}); code == 0 {
		t.Error("imported tokens over others")
	}
	if code := Main([]string{"state", "export", filepath.Join(base, "x"), "--data", filepath.Join(base, "none"), "--nats", c.URL()}); code == 0 {
		t.Error("exported without a certificate authority")
	}
}
