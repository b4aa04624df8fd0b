package control

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
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
			if b.hosts["h1"].applied.Sources[0].Authenticated || b.hosts["h2"].applied.Destinations[0].Authenticated || string(from.Key) != string(to.Key) {
				t.Errorf("marks to an earlier agent cannot carry tags: %+v, %+v", from, to)
			}
			if task := b.hosts["h3"].applied.Destinations[0]; task.Peers[0].Key != nil {
				t.Error("an earlier agent got a key")
			}
			return [2]string{string(web), string(b.hosts["h2"].applied.Sources[0].Peers[0].Key)}
		}
		// ports has no agent of an earlier version, but its packets are marked for web as well.
		for name, source := range map[string]string{"web": "h1", "ports": "h1"} {
			want := "marks without authentication: the version of the agent on h3, in session web, does not support it"
			if limit := limitOf(b.state(name, Running), source); !strings.HasPrefix(limit, want) {
				t.Errorf("limit of %s: %q, want %q", name, limit, want)
			}
		}
		if limit := limitOf(b.state("db", Running), "h2"); limit != "" {
			t.Errorf("db, of other packets, has the limit %q", limit)
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

// TestAuthenticationByRule: an agent of an earlier version in one session does not keep another one of
// the same source and destination, for other packets, from authentication, unless the destination
// does not distinguish them.
func TestAuthenticationByRule(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "h3")
		b.on("h3", func(h *host) { h.capabilities = nil })
		b.pass(time.Second)
		b.create(session.Spec{Name: "db", Sources: []string{"h1"}, Destinations: []string{"h2"}, Trace: -1, Filters: []fivetuple.Filter{{Dport: 81}}})
		b.create(session.Spec{Name: "web", Sources: []string{"h1"}, Destinations: []string{"h2", "h3"}, Trace: -1, Filters: []fivetuple.Filter{{Dport: 80}}})
		authenticated := func(want map[string]bool) {
			t.Helper()
			b.state("db", Running)
			b.state("web", Running)
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, task := range b.hosts["h1"].applied.Sources {
				if task.Authenticated != want[task.Session] {
					t.Errorf("%s at its source: authenticated %t", task.Session, task.Authenticated)
				}
			}
			for _, task := range b.hosts["h2"].applied.Destinations {
				if task.Authenticated != want[task.Session] {
					t.Errorf("%s at its destination: authenticated %t", task.Session, task.Authenticated)
				}
			}
		}
		authenticated(map[string]bool{"db": true})
		b.on("h2", func(h *host) {
			h.capabilities = slices.DeleteFunc(session.Capabilities(), func(c string) bool { return c == session.RuleAuthentication })
		})
		b.until("the destination distinguishes no packets", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return !slices.ContainsFunc(b.hosts["h1"].applied.Sources, func(task session.SourceTask) bool { return task.Authenticated })
		})
		authenticated(nil)
		want := "marks without authentication: the version of the agent on h3, in session web, does not support it"
		if limit := limitOf(b.state("db", Running), "h1"); !strings.HasPrefix(limit, want) {
			t.Errorf("limit of db: %q, want %q", limit, want)
		}
	})
}
