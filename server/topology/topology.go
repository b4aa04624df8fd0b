// Package topology merges traced paths into one graph: agents, the routers between
// them, and hops without a reply.
//
// All addresses of an agent are one node: it states its host's addresses, so that a router with an
// agent is one node, also in the paths of both directions. Of other routers each address is a node:
// traces cannot tell which addresses belong to one router.
// A hop without a reply is a node between its neighbours, shared by all paths with the
// same number of silent hops between the same two nodes.
//
// Paths are of two kinds, which are never mixed. Traceroute shows addresses and round-trip times
// of its own probes (stream hops); IOAM shows identifiers of nodes and one-way delays of real
// packets (stream hop_delays). A router has a node for each address and one for its identifier,
// unless an agent runs on it. Stage times of such a router (stream router) are joined to its hops.
//
// It holds the last trace of each path in memory and nothing on disk. A server that starts
// restores traceroutes from the archive; paths of kind IOAM return with the next rows. In the flow
// it stands between the live rows of these streams and the API.
package topology

import (
	"container/list"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/session"
)

const (
	// keep is how long a path stays after its last trace.
	keep     = 24 * time.Hour
	hopsMost = 255
	// textMost bounds names and addresses from agents, bytes.
	textMost = 256
	// sessionsMost bounds the sessions of one path.
	sessionsMost = 64
	// late is how much older than the last trace a delayed one may be. An even older
	// time means that the agent's clock was set back.
	late = 10 * time.Minute
)

// ErrTrace marks an invalid trace.
var ErrTrace = errors.New("invalid trace")

// Topology is the graph. Its methods are safe for concurrent use.
type Topology struct {
	events event.Sink
	now    func() time.Time
	most   int // paths; the least recently traced is dropped first

	mu     sync.Mutex
	agents map[netip.Addr]string // by the addresses that they state; not changed
	hosts  hosts
	paths  map[key]*list.Element // of *path
	order  *list.List            // front: most recently traced
	// dropped are paths that gave way to others.
	dropped uint64
	// partial are packet traces of which rows are missing.
	partial map[packetTrace]*packetPath
	stages  map[string]routerStages // by agent
}

// key identifies a path.
type key struct{ source, destination, address, protocol string }

// path is the last trace of a path and its history.
type path struct {
	key
	result session.TraceResult
	hops   []session.TraceHop // one for each TTL from 1
	route  route
	// least has the minimum round-trip times since the hop has its address; 0: none.
	least []int64
	// before is the history without the last trace, of which more rows may follow.
	before, known history
	extended      bool      // an earlier trace that was restored has another route
	reported      time.Time // time of the last trace that caused an event
	seen          time.Time
	sessions      map[string]time.Time
	// measured are the figures of a path of kind IOAM; nil of the other kind. What it points to
	// is not changed.
	measured *packetPath
}

// New returns an empty graph of at most so many paths, 2 to 3 KB each, that reports path changes to events.
func New(events event.Sink, most int) *Topology {
	return &Topology{
		events: events, now: time.Now, most: most,
		agents: map[netip.Addr]string{}, paths: map[key]*list.Element{}, order: list.New(),
		partial: map[packetTrace]*packetPath{}, stages: map[string]routerStages{},
	}
}

// Add takes one traced path. The hops of a trace may be spread over several results of
// the same time. A result with an error and no hops changes nothing.
func (t *Topology) Add(source, destination, name string, result session.TraceResult) error {
	k := key{source, destination, result.Address, result.Protocol}
	err := check(k, name, &result)
	if err != nil {
		return fmt.Errorf("add path from %.64q to %.64q: %w", source, destination, err)
	}
	hops := inOrder(result.Hops)
	if len(hops) == 0 {
		return nil
	}
	t.mu.Lock()
	change, changed := t.add(k, name, result, hops, nil)
	t.mu.Unlock()
	if changed {
		t.events.Event(change)
	}
	return nil
}

// add takes the hops of a traceroute, or what was measured in packets.
func (t *Topology) add(k key, name string, result session.TraceResult, hops []session.TraceHop, measured *packetPath) (event.Event, bool) {
	now := t.now()
	p := t.find(k)
	p.see(name, now)
	age := p.result.Time.Sub(result.Time)
	switch {
	case age > 0 && age < late:
		return event.Event{}, false
	case age == 0 && measured != nil: // of another session, or the rest of a record
		if p.measured.packets > measured.packets {
			measured = p.measured
		}
	case age == 0:
		result.Reached = result.Reached || p.result.Reached
		hops = join(p.hops, hops)
	default:
		p.before = p.known
	}
	r := routeOf(hops, result.Reached)
	if measured != nil {
		r = measured.route(k.address)
	}
	p.least = leastOf(p, hops, r)
	p.result, p.hops, p.route, p.measured = result, hops, r, measured
	next, change := p.before.next(r, result.Time, t.same)
	p.known = next
	if !change || p.reported.Equal(result.Time) {
		return event.Event{}, false
	}
	p.reported = result.Time
	return event.Event{
		Time: now, Kind: "path-changed", Level: event.Info, Agent: k.source, Peer: k.destination, Session: name,
		Message: fmt.Sprintf("path from %s to %s (%s, %s) changed: was %s, is %s",
			k.source, or(k.destination, k.address), k.address, k.protocol,
			t.describe(p.before.route), t.describe(next.route)),
	}, true
}

// find returns the path, adding it if new, and marks it as most recently traced.
func (t *Topology) find(k key) *path {
	t.expire()
	if element := t.paths[k]; element != nil {
		t.order.MoveToFront(element)
		return element.Value.(*path)
	}
	for len(t.paths) >= t.most {
		t.drop(t.order.Back())
		t.dropped++
	}
	p := &path{key: k, sessions: map[string]time.Time{}}
	t.paths[k] = t.order.PushFront(p)
	return p
}

// Kept returns the number of paths, and how many were dropped to make room for others.
func (t *Topology) Kept() (paths int, dropped uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.paths), t.dropped
}

// expire drops paths that were last traced too long ago.
func (t *Topology) expire() {
	oldest := t.now().Add(-keep)
	for back := t.order.Back(); back != nil && back.Value.(*path).seen.Before(oldest); back = t.order.Back() {
		t.drop(back)
	}
}

func (t *Topology) drop(element *list.Element) {
	delete(t.paths, element.Value.(*path).key)
	t.order.Remove(element)
}

// in reports whether a session traces the path; the empty name means any.
func (p *path) in(name string, now time.Time) bool {
	maps.DeleteFunc(p.sessions, func(_ string, seen time.Time) bool { return now.Sub(seen) > keep })
	if name == "" {
		return true
	}
	_, ok := p.sessions[name]
	return ok
}

// see records that a session traced the path, dropping the oldest of too many sessions.
func (p *path) see(name string, now time.Time) {
	p.seen, p.sessions[name] = now, now
	if len(p.sessions) <= sessionsMost {
		return
	}
	oldest := name
	for other, seen := range p.sessions {
		if seen.Before(p.sessions[oldest]) {
			oldest = other
		}
	}
	delete(p.sessions, oldest)
}

// check validates what is kept, because agents may send anything.
func check(k key, name string, result *session.TraceResult) error {
	for what, text := range map[string]string{"source": k.source, "address": k.address, "protocol": k.protocol} {
		if text == "" {
			return fmt.Errorf("%w: no %s", ErrTrace, what)
		}
	}
	for _, text := range []string{k.source, k.destination, k.address, k.protocol, name, result.Source} {
		if len(text) > textMost {
			return fmt.Errorf("%w: %.64q... is longer than %d", ErrTrace, text, textMost)
		}
	}
	if result.Time.IsZero() {
		return fmt.Errorf("%w: no time", ErrTrace)
	}
	for _, h := range result.Hops {
		if h.TTL < 1 || h.TTL > hopsMost {
			return fmt.Errorf("%w: ttl %d, want 1 to %d", ErrTrace, h.TTL, hopsMost)
		}
		if h.Address == "" {
			continue
		}
		if _, err := netip.ParseAddr(h.Address); err != nil || len(h.Address) > textMost {
			return fmt.Errorf("%w: hop %d has address %.64q", ErrTrace, h.TTL, h.Address)
		}
	}
	return nil
}

// inOrder returns a hop for each TTL from 1, silent ones where missing.
func inOrder(unordered []session.TraceHop) []session.TraceHop {
	last := 0
	for _, h := range unordered {
		last = max(last, h.TTL)
	}
	hops := make([]session.TraceHop, last)
	for i := range hops {
		hops[i].TTL = i + 1
	}
	for _, h := range unordered {
		hops[h.TTL-1] = h
	}
	return hops
}

// join merges parts of one trace.
func join(a, b []session.TraceHop) []session.TraceHop {
	hops := make([]session.TraceHop, max(len(a), len(b)))
	for i := range hops {
		hops[i].TTL = i + 1
		if i < len(a) {
			hops[i] = a[i]
		}
		if i < len(b) && (b[i].Sent > 0 || b[i].Address != "") {
			hops[i] = b[i]
		}
	}
	return hops
}

func leastOf(p *path, hops []session.TraceHop, r route) []int64 {
	least := make([]int64, len(hops))
	for i, h := range hops {
		if h.Address == "" {
			continue
		}
		least[i] = h.RTT
		if i < len(p.least) && p.least[i] > 0 && i < len(p.route.hops) && p.route.hops[i] == r.hops[i] {
			least[i] = min(h.RTT, p.least[i])
		}
	}
	return least
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
