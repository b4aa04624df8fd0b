package authority

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRestoreRevivesNoToken: tokens that were revoked or used up after a backup are so
// again when the revocations of the replaced directory, or those of an agent, are merged.
func TestRestoreRevivesNoToken(t *testing.T) {
	folder, c := t.TempDir(), &clock{time.Now()}
	a, _ := joining(t, folder, c)
	_, viewer, err := a.Create(Token{Name: "viewer-1", Role: RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	_, once, err := a.Create(joinToken("once", JoinBounds{MaxUses: 1}))
	if err != nil {
		t.Fatal(err)
	}
	restored, emptied := t.TempDir(), t.TempDir()
	for _, to := range []string{restored, emptied} {
		if err := os.CopyFS(to, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := a.Enrol(once, "a", csr(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke("viewer-1"); err != nil {
		t.Fatal(err)
	}
	if err := a.RevokeAgent("gone", 7); err != nil {
		t.Fatal(err)
	}
	check := func(what string, b *Authority) {
		t.Helper()
		if _, err := b.Check(viewer); !errors.Is(err, ErrRevoked) {
			t.Errorf("%s: revoked token: %v", what, err)
		}
		if _, err := b.Check(once); !errors.Is(err, ErrUsedUp) {
			t.Errorf("%s: token that was used up: %v", what, err)
		}
		if !b.AgentRevoked("gone", 7) || b.AgentRevoked("gone", ^uint64(0)) || b.AgentRevoked("a", 1) {
			t.Errorf("%s: wrong agents are revoked", what)
		}
	}
	if added, _, err := MergePrevious(restored, folder); err != nil || added != 3 {
		t.Errorf("merged %d, %v", added, err)
	}
	b, _ := joining(t, restored, c)
	check("from the replaced directory", b)

	e, _ := joining(t, emptied, c)
	if _, err := e.Check(viewer); err != nil {
		t.Fatalf("before: %v", err)
	}
	if agents, err := e.MergeRevocations(a.Revocations()); err != nil || len(agents) != 1 || agents[0] != "gone" {
		t.Errorf("merged %q, %v", agents, err)
	}
	check("from an agent", e)
	if agents, err := e.MergeRevocations(a.Revocations()); err != nil || len(agents) != 0 {
		t.Errorf("merged again: %q, %v", agents, err)
	}
	again, _ := joining(t, emptied, c)
	check("after a restart", again)
}

// TestForeignRevocations: an agent cannot revoke others.
func TestForeignRevocations(t *testing.T) {
	c := &clock{time.Now()}
	a, _ := joining(t, t.TempDir(), c)
	b, _ := joining(t, t.TempDir(), c)
	if err := b.RevokeAgent("victim", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := a.MergeRevocations(b.Revocations()); !errors.Is(err, ErrRevocations) {
		t.Errorf("of another server: %v", err)
	}
	if err := a.RevokeAgent("x", 1); err != nil {
		t.Fatal(err)
	}
	var s signedList
	if err := json.Unmarshal(a.Revocations(), &s); err != nil {
		t.Fatal(err)
	}
	s.Payload = bytes.Replace(s.Payload, []byte(`"x"`), []byte(`"y"`), 1)
	changed, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.MergeRevocations(changed); !errors.Is(err, ErrRevocations) || a.AgentRevoked("y", 1) {
		t.Errorf("changed: %v", err)
	}
	if _, _, err := MergePrevious(a.folder, b.folder); !errors.Is(err, ErrRevocations) {
		t.Errorf("directory of another server: %v", err)
	}
	if added, _, err := MergePrevious(a.folder, filepath.Join(a.folder, "none")); err != nil || added != 0 {
		t.Errorf("directory of an earlier version: %d, %v", added, err)
	}
}

// TestGenerationsAscend: also if the clock is set back, and above a revocation.
func TestGenerationsAscend(t *testing.T) {
	c := &clock{time.Now()}
	a, _ := joining(t, t.TempDir(), c)
	if err := a.RevokeAgent("a", 0); err != nil {
		t.Fatal(err)
	}
	c.time = c.time.Add(-48 * time.Hour)
	_, issued, err := a.SignAgent(csr(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if generation := Generation(issued.Serial); generation == 0 || a.AgentRevoked("a", generation) {
		t.Errorf("generation %d of %s", generation, issued.Serial)
	}
	for _, serial := range []string{"", "x", "-1", "1", "40" + "0123456789abcdef0123456789abcd", "ff" + string(bytes.Repeat([]byte("0"), 60))} {
		if g := Generation(serial); g != 0 {
			t.Errorf("%q: generation %d", serial, g)
		}
	}
}

// TestNameIsNotReusedOnACluster: it does not know that the former agent is revoked.
func TestNameIsNotReusedOnACluster(t *testing.T) {
	for _, cluster := range []bool{true, false} {
		c := &clock{time.Now()}
		a, _, err := Open(t.TempDir(), Options{Now: c.now, Cluster: cluster, AgentValidity: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		a.Use(names{})
		_, join, err := a.Secrets()
		if err != nil {
			t.Fatal(err)
		}
		if err := a.RevokeAgent("a", 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := a.Enrol(join, "a", csr(t)); errors.Is(err, ErrInvalid) != cluster {
			t.Errorf("cluster %t: %v", cluster, err)
		}
		c.time = c.time.Add(2 * time.Hour)
		a.Use(names{})
		if _, _, err := a.Enrol(join, "a", csr(t)); err != nil {
			t.Errorf("cluster %t, after the certificate has expired: %v", cluster, err)
		}
	}
}

func FuzzParseRevocations(f *testing.F) {
	f.Add([]byte(`{"payload":"W10=","signature":""}`))
	f.Add([]byte(`{"payload":"W3siYWdlbnQiOiJhIn1d"}`))
	a, _, err := Open(f.TempDir(), Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if _, err := a.MergeRevocations(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
		list, err := parseRevocations(text, nil)
		if err == nil {
			a.revocations.add(list)
		}
	})
}
