package ingest

import (
	"slices"
	"testing"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/measuretest"
)

// TestOrigins: what must be done once for each row watches the rows of its own server, live views watch all.
func TestOrigins(t *testing.T) {
	l := newLive()
	watchers := map[string]*Watcher{"all": l.Watch(nil, 10), "own": l.WatchOwn(nil, 10), "others": l.WatchOthers([]string{"sent_flows"}, 10)}
	if got := l.Wanted(); !slices.Equal(got, []string{EveryStream, "sent_flows"}) {
		t.Errorf("wanted from other servers: %v", got)
	}
	batch := func(agent string) archive.Batch {
		return archive.Batch{Agent: agent, Schema: &measure.Sent, Record: measuretest.Record(t, &measure.Sent)}
	}
	l.publish(batch("stored-here"))
	l.Receive(batch("stored-elsewhere"))
	l.close()
	for name, want := range map[string]string{"all": "stored-here stored-elsewhere ", "own": "stored-here ", "others": "stored-elsewhere "} {
		got := ""
		for b := range watchers[name].Batches() {
			got += b.Agent + " "
			b.Record.Release()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
