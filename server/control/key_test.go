package control

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"pillion.dev/session"
)

// TestSessionKey: the agents of a session get its key, another session has another one, and
// a restart of the server keeps both. An agent of an earlier version, which would reject the
// field, gets none.
func TestSessionKey(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.on("h3", func(h *host) { h.capabilities = nil })
		b.pass(time.Second)
		b.create(session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2", "h3"}, Trace: -1})
		b.create(session.Spec{Name: "db", Sources: []string{"h2"}, Destinations: []string{"h1"}, Trace: -1})
		b.state("web", Running)
		b.state("db", Running)
		keys := func() [2]string {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			web, read := b.hosts["h1"].applied.Sources[0].Key, b.hosts["h2"].applied.Destinations[0].Key
			if len(web) != session.KeyLength || string(web) != string(read) {
				t.Errorf("source %x, destination %x", []byte(web), []byte(read))
			}
			if task := b.hosts["h3"].applied.Destinations[0]; task.Key != nil {
				t.Error("an earlier agent got a key")
			}
			return [2]string{string(web), string(b.hosts["h2"].applied.Sources[0].Key)}
		}
		before := keys()
		if before[0] == before[1] {
			t.Error("two sessions share a key")
		}
		b.stop()
		b.boot()
		b.takeJournal()
		b.pass(2 * adoptTime)
		if after := keys(); after != before {
			t.Error("the restart of the server changed the keys")
		}
		for _, name := range []string{"sessions.json", "assignments.json"} {
			if info, err := os.Stat(filepath.Join(b.dir, name)); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
	})
}
