// Package refusal counts what the server refused because its originator has reached a
// quota or sends what is invalid, and raises one event a minute for each originator and
// cause: the answer to each attempt is the caller's.
package refusal

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/server/event"
)

// Invalid is the cause of refusals other than quotas.
const Invalid = "invalid"

// Causes are the quotas of the configuration, and Invalid.
var Causes = []string{
	"streams", "columns", "sequences", "gaps", "backlog_bytes", "states", "addresses", "connections", "request_bytes", "oml_connections", "oml_domains", "oml_tables", Invalid,
}

const (
	quiet = time.Minute
	// originatorsMost bounds the originators that are told apart.
	originatorsMost = 4096
)

// Ledger is safe for concurrent use.
type Ledger struct {
	events event.Sink
	now    func() time.Time

	mu     sync.Mutex
	counts map[string]uint64
	recent map[key]*entry
}

type key struct{ who, cause string }

type entry struct {
	raised time.Time
	count  uint64
}

// New returns an empty ledger.
func New(events event.Sink) *Ledger {
	return &Ledger{events: events, now: time.Now, counts: map[string]uint64{}, recent: map[key]*entry{}}
}

// Agent notes that something of an agent was refused.
func (l *Ledger) Agent(name string, err error) { l.note(name, "agent "+name, err) }

// Source notes that something of an originator other than an agent was refused: an
// address, or a user of this host.
func (l *Ledger) Source(source string, err error) { l.note("", source, err) }

func (l *Ledger) note(agent, who string, err error) {
	cause := Invalid
	if q := quota.Of(err); q != nil {
		cause = q.Quota
	}
	l.mu.Lock()
	l.counts[cause]++
	now := l.now()
	e := l.recent[key{who, cause}]
	if e == nil && len(l.recent) >= originatorsMost {
		maps.DeleteFunc(l.recent, func(_ key, e *entry) bool { return now.Sub(e.raised) >= quiet })
	}
	if e == nil && len(l.recent) < originatorsMost {
		e = &entry{}
		l.recent[key{who, cause}] = e
	}
	if e == nil {
		l.mu.Unlock()
		return
	}
	e.count++
	silent := now.Sub(e.raised) < quiet
	count := e.count
	if !silent {
		e.raised, e.count = now, 0
	}
	l.mu.Unlock()
	if silent {
		return
	}
	kind := "quota-reached"
	if cause == Invalid {
		kind = "data-refused"
	}
	message := fmt.Sprintf("refused from %s: %v", who, err)
	if count > 1 {
		message = fmt.Sprintf("%s (and %d times more in the last minute)", message, count-1)
	}
	l.events.Event(event.Event{Time: now, Kind: kind, Level: event.Warning, Agent: agent, Message: message})
}

// Counts returns the refusals since the start, by quota.
func (l *Ledger) Counts() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}
