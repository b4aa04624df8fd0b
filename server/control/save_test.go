package control

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	files "pillion.dev/internal/store"
	"pillion.dev/server/store"
	"pillion.dev/session"
)

// TestFilesAreAsWritten: what a server read from its files it writes the same way.
func TestFilesAreAsWritten(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	type agentsFile struct {
		Agents  []enrolment          `json:"agents"`
		Retired map[uint32]time.Time `json:"retired,omitempty"`
	}
	type sessionsFile struct {
		Sessions []saved `json:"sessions"`
		Runs     []Run   `json:"runs"`
	}
	type assignmentsFile struct {
		Assignments map[string]session.Assignment `json:"assignments"`
	}
	spec := func(name string) session.Spec {
		return session.Spec{Name: name, Sources: []string{"h1"}, Destinations: []string{"h2"}, Start: at.AddDate(100, 0, 0)}.Complete()
	}
	folder := t.TempDir()
	for name, document := range map[string]any{
		"agents": agentsFile{[]enrolment{
			{Name: "h1", Serial: "1", Number: 2, Enrolled: at, OwnLabels: map[string]string{"a": "<&>"}},
			{Name: "h2", Serial: "2", Number: 1, Interfaces: []session.Interface{{Name: "eth0", Addresses: []string{"10.0.0.1/24"}}}},
		}, map[uint32]time.Time{3: at, 10: at}},
		"sessions": sessionsFile{
			[]saved{{Spec: spec("db"), Created: at, Key: session.NewKey()}, {Spec: spec("web"), Created: at, Key: session.NewKey(), Phase: Paused}},
			[]Run{{Session: "web", Start: at, State: Missed}, {Session: "db", Start: at.Add(-1), State: Done}},
		},
		"assignments": assignmentsFile{map[string]session.Assignment{"h2": {Revision: 7}, "h1": {Revision: 8}}},
	} {
		if err := files.Save(filepath.Join(folder, name+".json"), document, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (texts []string) {
		for _, d := range Documents {
			text, err := os.ReadFile(filepath.Join(folder, d.Collection+".json"))
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		return texts
	}
	before := read()
	c, err := New(Options{Store: store.NewFiles(folder, Documents...), Events: &fleet{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Documents {
		kept, err := c.Store.Load(t.Context(), d.Collection)
		if err != nil {
			t.Fatal(err)
		}
		for key := range kept {
			section, own := store.Own(key)
			c.changed.add(d.Collection, section, own)
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	for i, text := range read() {
		if text != before[i] {
			t.Errorf("%s.json is now\n%s\nand was\n%s", Documents[i].Collection, text, before[i])
		}
	}
	c, err = New(Options{Store: store.NewFiles(folder, Documents...), Events: &fleet{}})
	if err != nil {
		t.Fatal(err)
	}
	if runs := c.Runs(at.Add(-time.Hour), at.Add(time.Hour), ""); len(runs) != 2 || len(c.sessions) != 2 || c.agents["h1"].sent.Revision != 8 {
		t.Errorf("loaded %d runs, %d sessions, agent %+v", len(runs), len(c.sessions), c.agents["h1"])
	}
}

// recorder is a store that keeps what was last written.
type recorder struct {
	store.Store
	written map[string][]byte
}

func (r *recorder) Write(ctx context.Context, collection string, items map[string][]byte) error {
	maps.Copy(r.written, items)
	return nil
}

// TestOnlyChangesAreWritten: the size of a write does not depend on the number of agents.
func TestOnlyChangesAreWritten(t *testing.T) {
	f := newFleet(t, 1000)
	kept := &recorder{f.Store, map[string][]byte{}}
	f.Store = kept
	expect := func(what string, keys ...string) {
		t.Helper()
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(kept.written)); !slices.Equal(got, keys) {
			t.Errorf("%s: wrote %.300q, want %q", what, got, keys)
		}
		clear(kept.written)
	}
	if err := f.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(kept.written) != 1000 {
		t.Errorf("wrote %d items for 1000 new agents, want them", len(kept.written))
	}
	clear(kept.written)
	expect("nothing")
	if err := f.SetLabels(nameOf(7), map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	expect("a label", "agents/"+nameOf(7))
	f.mu.Lock()
	for i := range runsMax + 1 {
		f.remember(Run{Session: fmt.Sprint(i)})
	}
	f.mu.Unlock()
	if err := f.Flush(); err != nil || len(kept.written) != runsMax+1 || kept.written["runs/"+store.Position(0)] != nil {
		t.Errorf("%d runs: %v", len(kept.written), err)
	}
	clear(kept.written)
	f.mu.Lock()
	f.remember(Run{Session: "last"})
	f.mu.Unlock()
	expect("a run", "runs/"+store.Position(1), "runs/"+store.Position(runsMax+1))
}
