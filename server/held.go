package server

import (
	"slices"
	"sync"
	"time"

	"pillion.dev/server/event"
)

// held is the sink for events that all servers of a fleet notice and one reports: the leading one. The others
// hold them for a while, since the leading one may have died before it noticed.
type held struct {
	event.Sink
	leads func() bool

	mu   sync.Mutex
	list []event.Event
}

const (
	// heldFor is longer than a fleet is without a leader.
	heldFor  = 30 * time.Second
	heldMost = 10_000
	// heldBefore is how long before its last sign of life a leader reported everything.
	heldBefore = 2 * time.Second
)

// Event reports an event, or holds it.
func (h *held) Event(e event.Event) {
	if h.leads() {
		h.Sink.Event(e)
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	old := 0
	for old < len(h.list) && (e.Time.Sub(h.list[old].Time) > heldFor || len(h.list)-old >= heldMost) {
		old++
	}
	h.list = append(slices.Delete(h.list, 0, old), e)
}

// release reports the events held since the previous leader last announced itself, if there was one. An event of
// its last seconds may be reported twice.
func (h *held) release(last time.Time) {
	h.mu.Lock()
	list := h.list
	h.list = nil
	h.mu.Unlock()
	for _, e := range list {
		if e.Time.After(last.Add(-heldBefore)) {
			h.Sink.Event(e)
		}
	}
}
