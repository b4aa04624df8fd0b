package topology

import (
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/session"
)

// Restore takes rows of the stream hops that the archive has, newest first, with their agents:
// what was known before the server started. It reports no changes, and a path that is known
// already keeps its last trace. An invalid trace is skipped and is part of the error, which is
// ErrTrace.
func (t *Topology) Restore(record arrow.RecordBatch) error {
	var traces Traces
	err := traces.Read(record)
	if err != nil {
		return fmt.Errorf("restore paths: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range traces.order {
		k, result := key{of.agent, of.peer, of.dest, of.protocol}, traces.results[of]
		if wrong := check(k, of.session, result); wrong != nil {
			err = errors.Join(err, fmt.Errorf("restore path from %.64q to %.64q: %w", of.agent, of.peer, wrong))
			continue
		}
		t.restore(k, of.session, *result)
	}
	return err
}

func (t *Topology) restore(k key, name string, result session.TraceResult) {
	element := t.paths[k]
	if element == nil {
		if len(t.paths) >= t.most || result.Time.Before(t.now().Add(-keep)) {
			return
		}
		element = t.order.PushBack(&path{key: k, sessions: map[string]time.Time{}})
		t.paths[k] = element
	}
	p, hops := element.Value.(*path), inOrder(result.Hops)
	if _, has := p.sessions[name]; !has && len(p.sessions) < sessionsMost {
		p.sessions[name] = result.Time
	}
	switch {
	case p.result.Time.Equal(result.Time): // the rest of the trace
		hops, result.Reached = join(p.hops, hops), result.Reached || p.result.Reached
	case !p.result.Time.IsZero():
		p.extend(routeOf(hops, result.Reached), result.Time, t.same)
		return
	default:
		p.seen = result.Time
	}
	r := routeOf(hops, result.Reached)
	p.least = leastOf(p, hops, r)
	p.result, p.hops, p.route = result, hops, r
	p.known, _ = p.before.next(r, result.Time, t.same)
}

// extend moves the time when the route was first seen back to the time of an earlier trace, until
// one shows another route.
func (p *path) extend(earlier route, at time.Time, same func(a, b place) bool) {
	switch {
	case p.extended || !p.known.since.IsZero() || !at.Before(p.known.changed):
	case earlier.agrees(p.known.route, same):
		p.known.route, p.known.changed = p.known.with(earlier), at
	default:
		p.extended = true
	}
}
