// Package alarm watches rows of the stream flows and raises an event when the loss of a
// pair of hosts exceeds a threshold, and another when it has ended.
//
// It sees rows as they are stored and keeps only a short window of sums for each pair: after a
// restart of a server without a fleet, ongoing loss is reported again. Rows come from agents
// and are not trusted: impossible values are ignored, and the state is bounded.
package alarm

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"pillion.dev/server/event"
)

// Limit is the loss above which an event is raised.
type Limit struct {
	// Share of the expected packets, 0 to 1; 0 disables events.
	Share float64
	// Over is the length of the window.
	Over time.Duration
	// Packets is the minimum number of expected packets in a window.
	Packets uint64
}

const (
	// A loss is over when it has been below half of the limit for this long,
	calmFor = 30 * time.Second
	// or when no packets were expected for this long.
	silentFor = 60 * time.Second

	// agentShare is the part of all pairs that one agent may report.
	agentShare = 8
	// idleFor is the time without rows after which the state of a pair is deleted.
	idleFor = 10 * time.Minute

	// eventsMost events are raised individually in each eventsEvery, the rest as one.
	eventsMost  = 50
	eventsEvery = time.Minute
)

// key is a pair in a session.
type key struct{ session, source, destination string }

// Loss watches the loss of all pairs.
type Loss struct {
	limit  Limit
	events event.Sink
	now    func() time.Time
	fleet  *Fleet // nil: no other server watches

	mu    sync.Mutex
	most  int // pairs
	pairs map[key]*pair
	of    map[string]int // pairs by destination
	// refused are rows of pairs beyond the limit.
	refused uint64
	// raised counts events since begun, hidden the losses beyond eventsMost.
	begun          time.Time
	raised, hidden int
}

// New returns a Loss of at most so many pairs, about 0.5 KB each. Events go to the sink.
func New(limit Limit, most int, events event.Sink) *Loss {
	return &Loss{limit: limit, events: events, now: time.Now, most: most, pairs: map[key]*pair{}, of: map[string]int{}}
}

// find returns the pair, which it adds if needed; nil if there are too many.
func (l *Loss) find(k key) *pair {
	if p := l.pairs[k]; p != nil {
		return p
	}
	if len(l.pairs) >= l.most || l.of[k.destination] >= max(1, l.most/agentShare) {
		l.refused++
		return nil
	}
	// The strings point into the batch, which is released.
	k = key{strings.Clone(k.session), strings.Clone(k.source), strings.Clone(k.destination)}
	p := &pair{key: k}
	l.pairs[k] = p
	l.of[k.destination]++
	return p
}

// Kept returns the number of pairs, and that of the rows of further ones, which raise no event.
func (l *Loss) Kept() (pairs int, refused uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pairs), l.refused
}

func (l *Loss) remove(k key) {
	delete(l.pairs, k)
	if l.of[k.destination]--; l.of[k.destination] == 0 {
		delete(l.of, k.destination)
	}
}

// judge evaluates a pair after new rows.
func (l *Loss) judge(k key, p *pair, now time.Time) {
	lost, expected := p.sums(l.limit.Over)
	if expected == 0 {
		return
	}
	share := float64(lost) / float64(expected)
	enough := expected >= l.limit.Packets
	switch {
	case p.since.IsZero() && enough && share > l.limit.Share:
		p.since, p.calm, p.worst = p.newest, time.Time{}, share
		if !p.silent() {
			l.begin(k, p, lost, expected, now)
		}
	case p.since.IsZero():
	case share > l.limit.Share/2:
		p.calm = time.Time{}
		if enough {
			p.worst = max(p.worst, share)
		}
	case p.calm.IsZero():
		p.calm = p.newest
	case p.newest.Sub(p.calm) >= calmFor:
		l.end(k, p, now, p.calm, "now "+percent(share))
	}
}

// begin raises the event that a loss has begun.
func (l *Loss) begin(k key, p *pair, lost, expected uint64, now time.Time) {
	if p.shown = l.mayRaise(now); p.shown {
		l.raise(k, p.since, now, "loss", event.Warning, "%s lost %s (%s of %s packets) in %s, threshold %s",
			k.words(), percent(p.worst), count(lost), count(expected), span(p.span), percent(l.limit.Share))
	}
}

// Tick ends losses of pairs without traffic, removes idle pairs, and raises the summary of
// hidden events. It is called about once a second.
func (l *Loss) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, p := range l.pairs {
		silence := max(silentFor, 2*p.span)
		switch over := !p.since.IsZero() && now.Sub(p.lastTraffic) >= silence; {
		case over && p.silent():
			l.abandoned(p, now, silence)
		case over:
			l.end(k, p, now, p.newest, fmt.Sprintf("no packets for %s, so the current loss is unknown", span(silence)))
		}
		if p.since.IsZero() && now.Sub(p.lastRow) >= idleFor {
			l.remove(k)
		}
	}
	if l.hidden > 0 && now.Sub(l.begun) >= eventsEvery {
		l.events.Event(event.Event{Time: now, Kind: "loss", Level: event.Warning, Message: fmt.Sprintf(
			"%d more pairs lost more than %s in the last %s", l.hidden, percent(l.limit.Share), span(now.Sub(l.begun).Round(time.Second)))})
		l.hidden = 0
	}
}

// end raises the event that a loss has ended, unless its beginning was hidden.
func (l *Loss) end(k key, p *pair, now, at time.Time, why string) {
	if p.shown {
		l.raise(k, at, now, "loss-ended", event.Info, "%s: loss is over after %s, at worst %s in %s; %s",
			k.words(), span(max(at.Sub(p.since), 0).Round(time.Second)), percent(p.worst), span(p.span), why)
	}
	p.forget()
}

// mayRaise reports whether another loss may be reported individually, and counts it.
func (l *Loss) mayRaise(now time.Time) bool {
	if now.Sub(l.begun) >= eventsEvery && l.hidden == 0 {
		l.begun, l.raised = now, 0
	}
	if l.raised >= eventsMost {
		l.hidden++
		return false
	}
	l.raised++
	return true
}

// raise raises an event with the time of the rows, so that charts show it where the loss
// is, but not with a time in the future.
func (l *Loss) raise(k key, at, now time.Time, kind, level, format string, a ...any) {
	if at.After(now) {
		at = now
	}
	e := event.Event{Time: at, Kind: kind, Level: level, Agent: k.source, Peer: k.destination, Session: k.session, Message: fmt.Sprintf(format, a...)}
	if k.source == "" {
		e.Agent, e.Peer = k.destination, ""
	}
	l.events.Event(e)
}
