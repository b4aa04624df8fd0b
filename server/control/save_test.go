package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pillion.dev/server/store"
)

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
