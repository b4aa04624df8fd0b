package control

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// TestSessionKey: the agents of a session get its key, another session has another one, and
// a restart of the server keeps both.
func TestSessionKey(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.pass(time.Second)
		b.create(session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2", "h3"}, Trace: -1})
		b.create(session.Spec{Name: "db", Sources: []string{"h2"}, Destinations: []string{"h1"}, Trace: -1})
		ports := session.Spec{Name: "ports", Sources: []string{"h1"}, Destinations: []string{"h2"}, Trace: -1, Filters: []fivetuple.Filter{{Dport: 80}}}
		b.create(ports)
		b.state("web", Running)
		b.state("db", Running)
		b.state("ports", Running)
		keys := func() [2]string {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			web, read := b.hosts["h1"].applied.Sources[0].Peers[0].Key, b.hosts["h2"].applied.Destinations[0].Peers[0].Key
			if len(web) != wire.KeyLength || string(web) != string(read) {
				t.Errorf("source %x, destination %x", []byte(web), []byte(read))
			}
			from, to := b.hosts["h1"].applied.Sources[0].Peers[0], b.hosts["h2"].applied.Destinations[0].Peers[0]
			if !b.hosts["h1"].applied.Sources[0].Authenticated || !b.hosts["h2"].applied.Destinations[0].Authenticated || string(from.Key) != string(to.Key) {
				t.Errorf("no tags by default: %+v, %+v", from, to)
			}
			return [2]string{string(web), string(b.hosts["h2"].applied.Sources[0].Peers[0].Key)}
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

// TestPairKeys: source and destination share a key that the other agents of the session do
// not get; without authentication there is none.
func TestPairKeys(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.pass(time.Second)
		b.create(session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2", "h3"}, Trace: -1})
		b.create(session.Spec{Name: "off", Sources: []string{"h2"}, Destinations: []string{"h3"}, Trace: -1, Authentication: session.Unauthenticated})
		b.state("web", Running)
		b.state("off", Running)
		b.mu.Lock()
		defer b.mu.Unlock()
		source := b.hosts["h1"].applied.Sources[0]
		keys := map[string]bool{}
		for _, peer := range source.Peers {
			read := b.hosts[peer.Agent].applied.Destinations
			for _, task := range read {
				if task.Session == "web" && string(task.Peers[0].Key) != string(peer.Key) {
					t.Errorf("%s has another key than its source", peer.Agent)
				}
			}
			keys[string(peer.Key)] = len(peer.Key) == wire.KeyLength
		}
		if !source.Authenticated || len(keys) != 2 || keys[""] {
			t.Errorf("authenticated %t, %d keys", source.Authenticated, len(keys))
		}
		if task := b.hosts["h2"].applied.Sources[0]; task.Authenticated {
			t.Error("a session without authentication is authenticated")
		}
	})
}
