package server

import (
	"strings"
	"testing"
	"time"

	"pillion.dev/server/event"
)

// kept is a sink that keeps the messages of events.
type kept []string

func (k *kept) Event(e event.Event) { *k = append(*k, e.Message) }
func (k *kept) Change(event.Change) {}

// TestHeldEvents: what the leading server reported is not reported again, what happened since is, and
// what is old is forgotten.
func TestHeldEvents(t *testing.T) {
	leads, sink, start := false, &kept{}, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := &held{Sink: sink, leads: func() bool { return leads }}
	at := func(seconds int, message string) {
		h.Event(event.Event{Time: start.Add(time.Duration(seconds) * time.Second), Message: message})
	}
	at(0, "forgotten")
	at(60, "reported")
	at(70, "at its end")
	at(72, "since")
	h.release(start.Add(71 * time.Second))
	leads = true
	at(73, "own")
	h.release(start)
	if got := strings.Join(*sink, ", "); got != "at its end, since, own" {
		t.Errorf("reported: %s", got)
	}
	leads, *sink = false, nil
	for range heldMost + 10 {
		at(80, "flood")
	}
	if len(h.list) != heldMost {
		t.Errorf("%d events are held", len(h.list))
	}
	h.release(time.Time{})
	if len(*sink) != heldMost || len(h.list) != 0 {
		t.Errorf("%d of the events are reported when no server has led before", len(*sink))
	}
}
