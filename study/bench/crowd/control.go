package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"pillion.dev/agent/hops"
	"pillion.dev/measure"
	"pillion.dev/session"
	"pillion.dev/trace"
)

// serve answers a request of the server.
func (h *host) serve(_ context.Context, text []byte) ([]byte, error) {
	var request session.Request
	if err := json.Unmarshal(text, &request); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	var reply session.Reply
	switch {
	case request.Apply != nil:
		reply.Tasks = h.apply(*request.Apply)
	case request.Trace != nil:
		path := h.trace(*request.Trace, time.Now())
		result := hops.Result(&path)
		if err := h.sending.Put(&measure.Hops, trace.Samples(&path, request.Trace.Session, request.Trace.Peer)...); err != nil {
			return nil, err
		}
		reply.Trace = &result
	case request.Doctor != nil:
		reply.Doctor = []session.Check{{Name: "simulation", Level: "ok", Found: "this host is simulated: nothing was looked at"}}
	case request.Describe != nil:
		reply.Facts = map[string]string{"kernel": "simulated"}
	default:
		return nil, fmt.Errorf("read request: it asks for nothing that this host knows")
	}
	return json.Marshal(reply)
}

// tracedOfAll is the number of hosts to which each traces paths if traffic comes from all.
const tracedOfAll = 10

// apply applies an assignment.
func (h *host) apply(a session.Assignment) []session.TaskState {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.assignment = a
	h.senders = map[string]map[string]bool{}
	for i := range a.Destinations {
		task := &a.Destinations[i]
		h.senders[task.Session] = peersWithTraffic(h.name, task.Peers, h.crowd.settings.sources)
	}
	traced := map[session.TraceTask]time.Time{}
	sending := map[string]map[string]bool{}
	for i := range a.Sources {
		task := &a.Sources[i]
		sending[task.Session] = peersWithTraffic(h.name, task.Peers, cmp.Or(h.crowd.settings.sources, tracedOfAll))
	}
	for _, task := range a.Traces {
		if !sending[task.Session][task.Peer] {
			continue // real agents trace all, with the same effect on the server
		}
		at, ok := h.traced[task]
		if !ok { // the first within seconds, the next ones spread out
			at = time.Now().Add(time.Duration(rand.IntN(10_000)) * time.Millisecond)
		}
		traced[task] = at
	}
	h.traced = traced
	return h.states()
}

// receivePulse handles the server's pulse, about once a second.
func (h *host) receivePulse(text []byte) {
	var pulse session.Pulse
	if json.Unmarshal(text, &pulse) != nil {
		return // the lease expires
	}
	alive := map[string]map[string]bool{}
	for name, peers := range pulse.Alive {
		alive[name] = map[string]bool{}
		for _, peer := range peers {
			alive[name][peer] = true
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pulse, h.pulsed, h.alive = pulse, time.Now(), alive
}
