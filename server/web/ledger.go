package web

import (
	"fmt"
	"maps"
	"net/netip"
	"sync"
	"time"

	"connectrpc.com/connect"

	"pillion.dev/internal/quota"
	"pillion.dev/server/event"
)

const (
	// ledgerSpan is the time in which calls that are alike are summed.
	ledgerSpan = time.Minute
	// ledgerRows of calls that are alike, other than refusals, have an audit record each.
	ledgerRows = 60
	// Of a source, and in total, as many kinds of calls are told apart.
	ledgerSourceMax = 64
	ledgerMax       = 1024
	others          = "others"
)

// ledger bounds the audit records of calls that a client can repeat at will: of those of one source, token, method
// and outcome, the first ones have one each, the others of a minute one with their number.
type ledger struct {
	events event.Sink
	now    func() time.Time

	mutex sync.Mutex
	alike map[likeness]*repeated
	kinds map[string]int // by source
	// refused counts refused calls by code.
	refused map[connect.Code]uint64
}

// likeness is what calls have in common.
type likeness struct{ source, token, role, method, outcome string }

type repeated struct {
	since      time.Time
	rows, more int
}

func newLedger(events event.Sink, now func() time.Time) *ledger {
	return &ledger{
		events: events, now: now, alike: map[likeness]*repeated{}, kinds: map[string]int{},
		refused: map[connect.Code]uint64{connect.CodeUnauthenticated: 0, connect.CodePermissionDenied: 0, connect.CodeResourceExhausted: 0},
	}
}

// note records a call, or counts it. Its outcome is "ok" or a code.
func (l *ledger) note(c event.Change, from netip.Addr, fault *connect.Error) {
	most, outcome := ledgerRows, "ok"
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if fault != nil {
		outcome = fault.Code().String()
		if refusal(fault) {
			most = 1
			l.refused[fault.Code()]++
		}
	}
	key := l.key(likeness{quota.Source(from), c.Token, c.Role, c.Method, outcome})
	one := l.alike[key]
	if one == nil {
		one = &repeated{since: c.Time}
		l.alike[key] = one
		l.kinds[key.source]++
	}
	if one.rows++; one.rows <= most {
		l.events.Change(c)
	} else {
		one.more++
	}
}

// key returns under which calls are summed.
func (l *ledger) key(key likeness) likeness {
	if l.alike[key] != nil {
		return key
	}
	if l.kinds[key.source] >= ledgerSourceMax {
		key = likeness{source: key.source, method: others, outcome: others}
	}
	if l.alike[key] == nil && len(l.alike) >= ledgerMax {
		key = likeness{source: others, method: others, outcome: others}
	}
	return key
}

// sum records how many calls were alike in the last minute; at the end, since then.
func (l *ledger) sum(end bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	now := l.now()
	for key, one := range l.alike {
		if !end && now.Sub(one.since) < ledgerSpan {
			continue
		}
		delete(l.alike, key)
		if l.kinds[key.source]--; l.kinds[key.source] == 0 {
			delete(l.kinds, key.source)
		}
		if one.more > 0 {
			l.events.Change(event.Change{
				Time: now, Token: key.token, Role: key.role, Remote: key.source, Method: key.method,
				Outcome: fmt.Sprintf("%s: %d more calls like it within a minute", key.outcome, one.more),
			})
		}
	}
}

// refusals returns the refused calls since the start, by code.
func (l *ledger) refusals() map[connect.Code]uint64 {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return maps.Clone(l.refused)
}

// refusal reports whether a call failed because of who made it, or made too many.
func refusal(fault *connect.Error) bool {
	code := fault.Code()
	return code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied || code == connect.CodeResourceExhausted
}
