package main

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"pillion.dev/measure"
	"pillion.dev/session"
	"pillion.dev/trace"
)

// probes of a hop.
const probes = 3

// trace generates a traced path.
func (h *host) trace(task session.TraceTask, now time.Time) trace.Path {
	path := trace.Path{Time: now, Source: h.place.address, Protocol: task.Protocol}
	path.Destination, _ = netip.ParseAddr(task.Address)
	other := h.crowd.byAddress[path.Destination]
	if other == nil || !path.Destination.Is4() {
		for ttl := range 4 { // the silent hops that end a trace
			path.Hops = append(path.Hops, trace.Hop{TTL: ttl + 1, Sent: probes})
		}
		return path
	}
	jitter := func() time.Duration { return time.Duration(30+rand.IntN(90)) * time.Microsecond }
	w := h.crowd.world.between(&h.place, &other.place)
	for i, r := range w.routers {
		hop := trace.Hop{TTL: i + 1, Sent: probes}
		if router := &h.crowd.world.routers[r]; !router.silent {
			hop.Address, hop.Answers, hop.RTT = router.address, probes, 2*w.delays[i]+jitter()
		}
		path.Hops = append(path.Hops, hop)
	}
	path.Hops = append(path.Hops, trace.Hop{
		TTL: len(w.routers) + 1, Address: path.Destination, RTT: 2*w.delay + jitter(), Sent: probes, Answers: probes,
	})
	path.Reached = true
	return path
}

// traceDue traces the paths that are due.
func (h *host) traceDue(now time.Time) error {
	var due []session.TraceTask
	h.mu.Lock()
	for task, at := range h.traced {
		if now.Before(at) {
			continue
		}
		due = append(due, task)
		h.traces++
		every := time.Duration(task.Every)
		h.traced[task] = now.Add(every - every/10 + time.Duration(rand.IntN(int(every/5)+1)))
	}
	h.mu.Unlock()
	var rows []measure.Sample
	for _, task := range due {
		path := h.trace(task, now)
		rows = append(rows, trace.Samples(&path, task.Session, task.Peer)...)
	}
	return h.sending.Put(&measure.Hops, rows...)
}
