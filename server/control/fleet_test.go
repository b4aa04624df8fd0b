package control

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
	"pillion.dev/server/authority"
	"pillion.dev/server/store"
	"pillion.dev/server/store/storetest"
	"pillion.dev/session"
)

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

// TestStateOfAFleet: a server that does not lead admits whom the leading one does, takes over its
// agents, sessions and runs, and keeps what agents have reported; the former one stops.
func TestStateOfAFleet(t *testing.T) {
	bucket := storetest.New()
	open := func(leads bool) *Control {
		kept, err := store.NewKV(t.Context(), bucket, store.Identity{Fingerprint: "f", Secret: []byte("s")})
		if err != nil {
			t.Fatal(err)
		}
		f := &fleet{t: t, now: time.Now(), applied: map[string]session.Assignment{}}
		c, err := New(Options{Store: kept, Bus: f, Events: f, Leads: func() bool { return leads }})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := open(true), open(false)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() {
		if err := two.Follow(ctx); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"h1", "h2", "h3"} {
		if _, err := one.Claim(name, authority.Certificate{Serial: name, Key: name}, authority.Grant{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "an agent is admitted", func() bool { return two.Admit("h3") == nil })
	if err := two.Standing("h1", authority.Certificate{Serial: "h1", Key: "h1"}); err != nil {
		t.Errorf("a certificate that the leading server issued: %v", err)
	}
	if err := two.Standing("h1", authority.Certificate{Serial: "x", Key: "x"}); !errors.Is(err, ErrSuperseded) {
		t.Errorf("another certificate: %v", err)
	}
	if err := one.Revoke("h3"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an agent is revoked", func() bool { return errors.Is(two.Admit("h3"), ErrRevoked) })
	if err := one.DeleteAgent("h3"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an agent is deleted", func() bool { return errors.Is(two.Admit("h3"), ErrNotFound) })

	if _, _, err := one.Create(t.Context(), web(), "me"); err != nil {
		t.Fatal(err)
	}
	two.mu.Lock()
	two.agents["h1"].lastReport, two.agents["h1"].connected = two.Now(), true
	two.mu.Unlock()
	if err := two.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := two.Session("web"); err != nil || len(two.Agents()) != 2 || len(s.Pairs) == 0 && s.Created.IsZero() {
		t.Errorf("took over %d agents, session %+v, %v", len(two.Agents()), s, err)
	}
	if a, err := two.Agent("h1"); err != nil || a.State != Connected {
		t.Errorf("the agent is %+v, %v", a, err)
	}
	if string(two.sessions["web"].Key) != string(one.sessions["web"].Key) {
		t.Error("the session has another key")
	}
	if err := two.SetLabels("h1", map[string]string{"a": "b"}); err != nil {
		t.Fatal(err)
	}
	if err := one.SetLabels("h1", map[string]string{"a": "c"}); !errors.Is(err, store.ErrChanged) {
		t.Errorf("the former leading server changed an agent: %v", err)
	}
	if err := one.Run(t.Context()); !errors.Is(err, store.ErrChanged) {
		t.Errorf("the former leading server went on: %v", err)
	}
	if err := one.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, err := one.Agent("h1"); err != nil || a.SetLabels["a"] != "b" || one.Health() != nil {
		t.Errorf("loaded again: %v, %v, %v", a.SetLabels, err, one.Health())
	}
}
