package topology

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pillion.dev/session"
)

// place is who replied at a hop: an address, or an IOAM node by its identifier. The zero place
// is a silent hop.
type place struct {
	address netip.Addr
	node    string
}

func (p place) known() bool { return p != place{} }

// route holds the places by hop from 1.
type route struct {
	hops    []place
	reached bool
}

// routeOf takes checked addresses.
func routeOf(hops []session.TraceHop, reached bool) route {
	r := route{hops: make([]place, len(hops)), reached: reached}
	for i, h := range hops {
		if h.Address != "" {
			r.hops[i].address = netip.MustParseAddr(h.Address).Unmap().WithZone("")
		}
	}
	return r
}

// certain is the significant part of a route: the number of silent hops at the end of
// an unreached route only shows when the tracer gave up.
func (r route) certain() []place {
	hops := r.hops
	for !r.reached && len(hops) > 0 && !hops[len(hops)-1].known() {
		hops = hops[:len(hops)-1]
	}
	return hops
}

// agrees reports whether both may be the same route: hops that replied in both are the
// same, and so are the lengths if known. A silent hop agrees with any.
func (r route) agrees(other route, same func(a, b place) bool) bool {
	a, b := r.certain(), other.certain()
	if r.reached && len(b) > len(a) || other.reached && len(a) > len(b) {
		return false
	}
	for i := range min(len(a), len(b)) {
		if a[i].known() && b[i].known() && !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

// with merges the route with a later one that agrees.
func (r route) with(later route) route {
	a, b := r.certain(), later.certain()
	if len(a) < len(b) {
		a, b = b, a
	}
	joined := route{hops: append([]place(nil), a...), reached: r.reached || later.reached}
	for i := range b {
		if !joined.hops[i].known() {
			joined.hops[i] = b[i]
		}
	}
	return joined
}

// history is the confirmed route of a path and a candidate that the last trace showed
// instead. A change is confirmed by a second trace that agrees with the candidate, since
// a single trace may mix two routes. Alternating routes are never confirmed.
type history struct {
	route
	changed   time.Time // when a trace first showed the route
	candidate route
	since     time.Time // when a trace first showed the candidate; zero: none
}

// next is the history after one more trace, and whether it confirmed a change.
func (h history) next(r route, at time.Time, same func(a, b place) bool) (history, bool) {
	if h.changed.IsZero() {
		return history{route: r, changed: at}, false
	}
	asKnown := r.agrees(h.route, same)
	if h.since.IsZero() {
		if asKnown {
			h.route = h.with(r)
		} else {
			h.candidate, h.since = r, at
		}
		return h, false
	}
	asCandidate := r.agrees(h.candidate, same)
	switch {
	case asKnown && asCandidate: // too few replies to tell
		return h, false
	case asKnown:
		return history{route: h.with(r), changed: h.changed}, false
	case asCandidate:
		return history{route: h.candidate.with(r), changed: h.since}, true
	}
	h.candidate, h.since = r, at
	return h, false
}

// same reports whether two places are one node.
func (t *Topology) same(a, b place) bool {
	return a == b || t.agentAt(a) != "" && t.agentAt(a) == t.agentAt(b)
}

// agentAt is the agent at a place; empty: none is known.
func (t *Topology) agentAt(p place) string {
	if p.node != "" {
		return t.hosts.nodes[p.node]
	}
	return t.agents[p.address]
}

// describe is the route as text.
func (t *Topology) describe(r route) string {
	var hops []string
	for _, p := range r.certain() {
		switch agent := t.agentAt(p); {
		case !p.known():
			hops = append(hops, "?")
		case agent != "":
			hops = append(hops, agent)
		case p.node != "":
			hops = append(hops, p.node)
		default:
			hops = append(hops, p.address.String())
		}
	}
	if !r.reached {
		hops = append(hops, "not reached")
	}
	return strings.Join(hops, " > ")
}

// Change is a path around its last change in a list of traces.
type Change struct {
	// Before is the last trace of another route than After, which is the last trace of
	// all; nil where there is none.
	Before, After *session.TraceResult
	// Current: the path has the route of After now. Reverted: it has the route of Before.
	Current, Reverted bool
}

// ChangeIn finds the last change of a path in traces that its source delivered.
func (t *Topology) ChangeIn(source string, traces *Traces) Change {
	t.mu.Lock()
	defer t.mu.Unlock()
	type dated struct {
		*session.TraceResult
		route
		key
	}
	var all []dated
	for _, of := range traces.order {
		result, k := traces.results[of], key{source, of.peer, of.dest, of.protocol}
		if check(k, of.session, result) != nil {
			continue
		}
		result.Hops = inOrder(result.Hops)
		all = append(all, dated{result, routeOf(result.Hops, result.Reached), k})
	}
	if len(all) == 0 {
		return Change{}
	}
	slices.SortStableFunc(all, func(a, b dated) int { return cmp.Compare(a.Time.UnixNano(), b.Time.UnixNano()) })
	last := all[len(all)-1]
	change := Change{After: last.TraceResult}
	var before route
	for _, one := range slices.Backward(all) {
		if !one.agrees(last.route, t.same) {
			change.Before, before = one.TraceResult, one.route
			break
		}
	}
	if element := t.paths[last.key]; element != nil {
		now := element.Value.(*path).route
		change.Current = now.agrees(last.route, t.same)
		change.Reverted = !change.Current && change.Before != nil && now.agrees(before, t.same)
	}
	return change
}
