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
	// ledgerMax kinds of calls are told apart.
	ledgerMax = 1024
	others    = "others"
	// invalidTokens of a source in a ledgerSpan are told what is wrong with them.
	invalidTokens = 10
)

// ledger bounds the audit records of calls that a client can repeat at will: of the calls of one source, token, method
// and outcome, the first ones have one each, the others of a minute one with their number.
type ledger struct {
	events event.Sink
	now    func() time.Time

	mutex sync.Mutex
	alike map[likeness]*repeated
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
		events: events, now: now, alike: map[likeness]*repeated{},
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
	one := l.find(likeness{quota.Source(from), c.Token, c.Role, c.Method, outcome})
	if one.rows++; one.rows <= most {
		l.events.Change(c)
	} else {
		one.more++
	}
}

// invalid counts an invalid token, and reports whether its source has sent too many.
func (l *ledger) invalid(from netip.Addr) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	one := l.find(likeness{source: quota.Source(from), outcome: "invalid token"})
	one.rows++
	return one.rows > invalidTokens
}

// find returns how often such calls were made. Beyond ledgerMax, all others are one kind.
func (l *ledger) find(key likeness) *repeated {
	if l.alike[key] == nil && len(l.alike) >= ledgerMax {
		key = likeness{source: others, method: others, outcome: others}
	}
	if l.alike[key] == nil {
		l.alike[key] = &repeated{since: l.now()}
	}
	return l.alike[key]
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
