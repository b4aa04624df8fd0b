package server

import (
	"context"
	"testing"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// bounded is an archive that records retention settings.
type bounded struct {
	archive.Archive
	streams []archive.Stream
	set     map[string]archive.Retention
}

func (k *bounded) Streams(context.Context) ([]archive.Stream, error) { return k.streams, nil }

func (k *bounded) SetRetention(stream string, r archive.Retention) { k.set[stream] = r }

// TestBound: the configuration takes precedence over the API, and the API over the
// default. It is applied to each stream once, so that the API can change it later.
func TestBound(t *testing.T) {
	day := 24 * time.Hour
	stream := func(name string, age time.Duration) archive.Stream {
		return archive.Stream{Schema: &measure.Schema{Name: name}, Retention: archive.Retention{Age: age}}
	}
	k := &bounded{set: map[string]archive.Retention{}, streams: []archive.Stream{
		stream("flows", 3*day), stream("hops", 5*day), stream("busy", 0), stream("kept", 9*day),
	}}
	s := &server{archive: k, retained: map[string]bool{}, config: Config{Retention: map[string]Retention{"flows": {Age: day}, "kept": {}}}}
	if err := s.applyRetention(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{
		"flows": day, "busy": 31 * day, "packets": 2 * day, "audit": 365 * day, "kept": 0,
	} {
		if got, ok := k.set[name]; !ok || got.Age != want {
			t.Errorf("retention of %s is %v (set: %v), want %v", name, got.Age, ok, want)
		}
	}
	if _, ok := k.set["hops"]; ok {
		t.Error("the retention that the API set for hops was replaced")
	}
	clear(k.set)
	k.streams = append(k.streams, stream("new", 0))
	if err := s.applyRetention(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(k.set) != 1 || k.set["new"].Age != 31*day {
		t.Errorf("set again: %v", k.set)
	}
}
