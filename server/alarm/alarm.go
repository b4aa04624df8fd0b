// Package alarm watches rows of the stream flows and tells operators when a pair of
// hosts begins to lose more packets than it should, and when that is over.
//
// It looks at rows as they are stored and keeps a short window of sums for each
// pair, nothing else: after a restart of the server, a loss that goes on is told
// again. Rows come from agents and are not trusted: what cannot be is left out, and
// what is kept is bounded.
package alarm

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"pillion.dev/server/event"
)

// Limit is the loss above which operators are told.
type Limit struct {
	// Share of the expected packets, 0 to 1; 0 tells of none.
	Share float64
	// Over is the length of the window.
	Over time.Duration
	// Packets that have to be expected in a window for it to say anything.
	Packets uint64
}

const (
	// A loss is over when it was below half of the limit for so long,
	calmFor = 30 * time.Second
	// or when no packets were expected for so long.
	silentFor = 60 * time.Second

	// pairsMost bounds all pairs, agentMost those whose rows one agent delivers.
	pairsMost = 65536
	agentMost = 8192
	// idleFor is after how long without a row a pair is forgotten.
	idleFor = 10 * time.Minute

	// eventsMost are told one by one in each eventsEvery; those beyond as one.
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

	mu    sync.Mutex
	pairs map[key]*pair
	of    map[string]int // pairs by destination
	// told are the events since begun, hidden the losses that came beyond eventsMost.
	begun        time.Time
	told, hidden int
}

// New watches nothing yet. Events go to the sink.
func New(limit Limit, events event.Sink) *Loss {
	return &Loss{limit: limit, events: events, now: time.Now, pairs: map[key]*pair{}, of: map[string]int{}}
}

// find returns the pair, new if need be; nil where there are too many.
func (l *Loss) find(k key) *pair {
	if p := l.pairs[k]; p != nil {
		return p
	}
	if len(l.pairs) >= pairsMost || l.of[k.destination] >= agentMost {
		return nil
	}
	// The texts lie in the batch, which does not stay.
	k = key{strings.Clone(k.session), strings.Clone(k.source), strings.Clone(k.destination)}
	p := &pair{key: k}
	l.pairs[k] = p
	l.of[k.destination]++
	return p
}

func (l *Loss) forget(k key) {
	delete(l.pairs, k)
	if l.of[k.destination]--; l.of[k.destination] == 0 {
		delete(l.of, k.destination)
	}
}

// judge looks at a pair after new rows.
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
		if p.shown = l.mayTell(now); p.shown {
			l.tell(k, p.newest, now, "loss", event.Warning, "%s lost %s (%s of %s packets) in %s, threshold %s",
				k.words(), percent(share), count(lost), count(expected), span(p.span), percent(l.limit.Share))
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

// Tick ends losses of pairs that fell silent, forgets pairs, and tells of events
// that were too many. It is called about once a second.
func (l *Loss) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for k, p := range l.pairs {
		if silence := max(silentFor, 2*p.span); !p.since.IsZero() && now.Sub(p.traffic) >= silence {
			l.end(k, p, now, p.newest, fmt.Sprintf("no packets for %s, so the current loss is unknown", span(silence)))
		}
		if p.since.IsZero() && now.Sub(p.heard) >= idleFor {
			l.forget(k)
		}
	}
	if l.hidden > 0 && now.Sub(l.begun) >= eventsEvery {
		l.events.Event(event.Event{Time: now, Kind: "loss", Level: event.Warning, Message: fmt.Sprintf(
			"%d more pairs lost more than %s in the last %s", l.hidden, percent(l.limit.Share), span(now.Sub(l.begun).Round(time.Second)))})
		l.hidden = 0
	}
}

// end tells that a loss is over, unless nobody was told that it began.
func (l *Loss) end(k key, p *pair, now, at time.Time, why string) {
	if p.shown {
		l.tell(k, at, now, "loss-ended", event.Info, "%s: loss is over after %s, at worst %s in %s; %s",
			k.words(), span(max(at.Sub(p.since), 0).Round(time.Second)), percent(p.worst), span(p.span), why)
	}
	p.since, p.calm, p.worst, p.shown = time.Time{}, time.Time{}, 0, false
}

// mayTell counts the losses that begin.
func (l *Loss) mayTell(now time.Time) bool {
	if now.Sub(l.begun) >= eventsEvery && l.hidden == 0 {
		l.begun, l.told = now, 0
	}
	if l.told >= eventsMost {
		l.hidden++
		return false
	}
	l.told++
	return true
}

// tell has the time of the rows, so that the event lies on a chart where the loss
// does; a clock that is ahead does not put it into the future.
func (l *Loss) tell(k key, at, now time.Time, kind, level, format string, a ...any) {
	if at.After(now) {
		at = now
	}
	e := event.Event{Time: at, Kind: kind, Level: level, Agent: k.source, Peer: k.destination, Session: k.session, Message: fmt.Sprintf(format, a...)}
	if k.source == "" {
		e.Agent, e.Peer = k.destination, ""
	}
	l.events.Event(e)
}
