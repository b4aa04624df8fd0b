package web

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
)

func TestSlotsPerTokenAreLimited(t *testing.T) {
	s := newSlots(8)
	roleOf := map[string]role{"greedy": viewer, "other": analyst, "operating": operator}
	of := func(token string) context.Context {
		return context.WithValue(t.Context(), callerKey{}, caller{token: token, role: roleOf[token]})
	}
	var releases []func()
	for range 100 {
		if release, err := s.take(of("greedy")); err == nil {
			releases = append(releases, release)
		}
	}
	if len(releases) != 6 {
		t.Errorf("one token got %d of 8", len(releases))
	}
	for _, next := range []struct {
		token string
		want  bool
	}{{"other", true}, {"other", false}, {"operating", true}, {"operating", false}} {
		release, err := s.take(of(next.token))
		if (err == nil) != next.want {
			t.Errorf("token %s, with %d slots in use: %v", next.token, s.used, err)
		}
		if err == nil {
			releases = append(releases, release)
		}
	}
	for _, release := range releases {
		release()
		release() // has no effect
	}
	if s.used != 0 || len(s.of) != 0 {
		t.Errorf("%d used, of %v", s.used, s.of)
	}
}

// TestEveryHealthzQueriedTheArchive: many callers share one check, until it is a second old.
func TestEveryHealthzQueriedTheArchive(t *testing.T) {
	var checks, seconds atomic.Int64
	s := newSite(t, func(o *Options) {
		o.Health = func(context.Context) []Part { checks.Add(1); return []Part{{Name: "bus", OK: true}} }
		o.Now = func() time.Time { return epoch.Add(time.Duration(seconds.Load()) * time.Second) }
	})
	ask := func() {
		var asking sync.WaitGroup
		for range 50 {
			asking.Go(func() {
				if status, body := s.get(t, "http1", "/healthz", ""); status != http.StatusOK {
					t.Errorf("got %d %s", status, body)
				}
			})
		}
		asking.Wait()
	}
	ask()
	if n := checks.Load(); n != 1 {
		t.Errorf("%d checks", n)
	}
	seconds.Store(1)
	ask()
	if n := checks.Load(); n != 2 {
		t.Errorf("%d checks after a second", n)
	}
}

// TestListStreamsHadNoLimit: it takes a slot, as other questions do.
func TestListStreamsHadNoLimit(t *testing.T) {
	d := &data{questions: newSlots(1)}
	ctx := context.WithValue(t.Context(), callerKey{}, caller{token: "busy"})
	release, err := d.questions.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := d.ListStreams(ctx, nil); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("got %v", err)
	}
}
