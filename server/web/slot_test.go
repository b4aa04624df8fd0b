package web

import (
	"context"
	"testing"
)

func TestSlotsPerTokenAreLimited(t *testing.T) {
	s := newSlots(8)
	of := func(token string) context.Context {
		return context.WithValue(t.Context(), callerKey{}, caller{token: token})
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
	for n, want := range []bool{true, true, false} {
		release, err := s.take(of("other"))
		if (err == nil) != want {
			t.Errorf("query %d of another token: %v", n, err)
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
