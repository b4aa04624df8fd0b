package authority

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
	"pillion.dev/server/store"
	"pillion.dev/server/store/storetest"
)

// patience is the timeout of every wait; no test asserts a duration.
const patience = hang.Limit

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(patience); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// fleet returns servers with the same authority and the same store, of which some have created the
// first tokens.
func fleet(t *testing.T, servers int) (all []*Authority, created []*Authority) {
	t.Helper()
	bucket, key := storetest.New(), []byte(nil)
	var mu sync.Mutex
	var starts sync.WaitGroup
	for n := range servers {
		folder := t.TempDir()
		path := filepath.Join(folder, keysFolder, authorityFile)
		if n > 0 {
			if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, key, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		a, err := OpenKeys(folder, Options{Cluster: true})
		if err != nil {
			t.Fatal(err)
		}
		if key, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		secret, err := a.Secret("state")
		if err != nil {
			t.Fatal(err)
		}
		kept, err := store.NewKV(t.Context(), bucket, store.Identity{Fingerprint: a.Fingerprint(), Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
		starts.Go(func() {
			made, err := a.OpenTokens(t.Context(), kept)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if made {
				created = append(created, a)
			}
		})
	}
	starts.Wait()
	return all, created
}

// TestFirstTokensOfAFleet: of several servers that start at once one creates the first tokens and
// has their files; all accept them.
func TestFirstTokensOfAFleet(t *testing.T) {
	all, created := fleet(t, 3)
	if len(created) != 1 {
		t.Fatalf("%d servers created the first tokens", len(created))
	}
	operator, join, err := created[0].Secrets()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first tokens are stored", func() bool {
		for _, a := range all {
			if err := a.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return len(all[0].List()) == 2
	})
	for _, a := range all {
		if k, err := a.Check(operator); err != nil || k.Role != RoleAdmin {
			t.Errorf("operator token: %+v, %v", k, err)
		}
		if k, err := a.Check(join); err != nil || k.Role != RoleJoin {
			t.Errorf("join token: %+v, %v", k, err)
		}
		if _, err := os.Stat(filepath.Join(a.folder, AdminFile)); a != created[0] && err == nil {
			t.Error("a server that created no tokens has files of tokens")
		}
	}
}

// TestTokensOfAFleet: what one server creates and revokes holds for the others, and concurrent changes
// are all kept.
func TestTokensOfAFleet(t *testing.T) {
	all, _ := fleet(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var follows sync.WaitGroup
	for _, a := range all {
		follows.Go(func() {
			if err := a.Follow(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	defer follows.Wait()
	defer cancel()
	one, two := all[0], all[1]
	_, secret, err := one.Create(Token{Name: "one", Role: RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other server accepts a new token", func() bool { _, err := two.Check(secret); return err == nil })
	if err := two.Revoke("one"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a revoked token is refused", func() bool { _, err := one.Check(secret); return errors.Is(err, ErrRevoked) })
	if err := one.RevokeAgent("h1", 7); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an agent is revoked", func() bool { return two.AgentRevoked("h1", 7) })
	var writers sync.WaitGroup
	for i, a := range all {
		writers.Go(func() {
			for n := range 20 {
				name := "t" + string(rune('a'+i)) + string(rune('a'+n))
				if _, _, err := a.Create(Token{Name: name, Role: RoleViewer}); err != nil {
					t.Error(err)
				} else if err := a.Revoke(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	for _, a := range all {
		if err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		revoked := 0
		for _, k := range a.List() {
			if k.Revoked {
				revoked++
			}
		}
		if len(a.List()) != 43 || revoked != 41 || len(a.revocations.tokens) != 41 {
			t.Errorf("%d tokens, %d revoked, %d revocations", len(a.List()), revoked, len(a.revocations.tokens))
		}
	}
}

// TestCreateBesideAChange: a new token that was written together with one that another server
// has changed meanwhile is created.
func TestCreateBesideAChange(t *testing.T) {
	all, _ := fleet(t, 2)
	one, two := all[0], all[1]
	if _, _, err := two.Create(Token{Name: "old", Role: RoleViewer}); err != nil {
		t.Fatal(err)
	}
	if err := one.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.Revoke("old"); err != nil {
		t.Fatal(err)
	}
	// The first server notes that it was used, and does not know that it is revoked.
	one.mu.Lock()
	one.dirty[one.list[one.find("old")].key] = true
	one.mu.Unlock()
	made, secret, err := one.Create(Token{Name: "new", Role: RoleViewer})
	if err != nil || made.Name != "new" {
		t.Fatal(made, err)
	}
	for _, a := range all {
		if err := a.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if k, err := a.Check(secret); err != nil || k.Name != "new" {
			t.Error(k, err)
		}
	}
}
