// Package control is the registry of agents and runs the sessions: it determines which
// agents take part, assigns tasks to destinations before sources and withdraws them in
// the reverse order, renews the leases of sources while their destinations are alive,
// starts and ends runs on schedule, and raises events when something fails.
//
// It is declarative: each round computes the desired tasks of every agent from the
// sessions and the agents' reports, and sends them to an agent if they differ from what
// it was sent last. A restart of either side therefore needs no special handling.
//
// It sees no rows and serves no requests: it sends through bus and is called by web.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"pillion.dev/server/event"
	"pillion.dev/server/store"
	"pillion.dev/session"
)

// Errors that callers distinguish.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("already exists")
	// ErrInvalid is wrapped by an *InvalidError, which has the problems.
	ErrInvalid = errors.New("invalid")
	// ErrConflict is two sessions that cannot run at the same time.
	ErrConflict = session.ErrConflict
	// ErrState is an operation that the current state does not allow.
	ErrState = errors.New("not allowed")
	// ErrRevoked and ErrSuperseded are certificates that are no longer valid.
	ErrRevoked    = errors.New("agent is revoked: to join again, an operator deletes the agent, and the host starts with an empty data directory and a new join token")
	ErrSuperseded = errors.New("certificate is superseded by a newer one")
)

// InvalidError is a specification, or another argument, with problems.
type InvalidError struct{ Problems []session.Problem }

// Error has all problems in one line.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "; ")
}

// Unwrap makes it an ErrInvalid.
func (e *InvalidError) Unwrap() error { return ErrInvalid }

func invalid(field, format string, a ...any) error {
	return &InvalidError{[]session.Problem{{Field: field, Message: fmt.Sprintf(format, a...)}}}
}

// Bus is how agents are reached. Ask waits for the answer; the others do not wait.
type Bus interface {
	Ask(ctx context.Context, agent string, request []byte) ([]byte, error)
	Pulse(agent string, pulse []byte) error
	Disconnect(agent string)
}

// Revocations is the list of what was revoked for ever, which may be newer than the other
// documents, if these were restored from a backup.
type Revocations interface {
	// RevokeAgent revokes all certificates of an agent, of which the latest known has
	// that generation; AgentRevoked reports whether that has happened.
	RevokeAgent(name string, generation uint64) error
	AgentRevoked(name string, generation uint64) bool
}

// Options of a Control.
type Options struct {
	// Store keeps agents, sessions and assignments.
	Store store.Store
	// Leads reports whether this server decides who joins and sends assignments and leases, rather
	// than another one, which writes the store; nil: always.
	Leads  func() bool
	Bus    Bus
	Events event.Sink
	// Revocations may be nil: then only its own documents have them.
	Revocations Revocations
	Log         *slog.Logger
	// Now is the time; default time.Now.
	Now func() time.Time
	// Grace is how long a destination reads on after a source has stopped, for
	// packets on the way; default 2 s.
	Grace time.Duration
	// Agents that may be registered; default 100,000.
	Agents int
	// Addresses of one agent that are considered; default 1024. Refused, if set, is called
	// for reports that are invalid or beyond it.
	Addresses int
	Refused   func(agent string, err error)
}

// Times in which things must happen.
const (
	defaultGrace = 2 * time.Second
	roundEvery   = time.Second
	healthyFor   = 30 * time.Second
	// awayAfter is the silence after which an agent counts as away, aliveFor that
	// after which its sources' leases are no longer renewed.
	awayAfter = 5 * time.Second
	aliveFor  = 3 * time.Second
	// startTime is how long a session may take to start before it is degraded.
	startTime = 10 * time.Second
	askTime   = 10 * time.Second
	retryMin  = time.Second
	retryMax  = 30 * time.Second
	// adoptTime is how long, after a start, the server waits for agents to report before
	// it changes their assignments.
	adoptTime = 3 * time.Second
	// quiet is the minimum time between two events of one kind.
	quiet = time.Minute
)

const defaultAgents = 100_000

// Control is safe for concurrent use.
type Control struct {
	Options
	notices  notices
	mu       sync.Mutex
	agents   map[string]*agent
	retired  map[uint32]time.Time // numbers of agents that were deleted, and when
	numbers  map[uint32]bool      // of agents
	numbered uint32               // none up to this one is unused
	sessions map[string]*record
	runs     []pastRun // oldest first
	// changed items are written at the end of a round.
	changed changes
	stale   stale
	// unenrolled agents were refused because there were too many.
	unenrolled uint64
	plan       plan
	// duplicated is when two processes last used the same name.
	duplicated time.Time
	// absentAt is when the next agent loses addresses to others because it is away; zero: none does.
	absentAt time.Time
	saving   sync.Mutex
	wake     chan struct{}
	// pulseSoon requests an immediate pulse, for a source that waits for its first lease.
	pulseSoon chan struct{}
	// rounded is the time of the last round, unsaved the error of the last write.
	rounded time.Time
	// began is when the server started.
	began   time.Time
	unsaved error
	// adoptUntil is when assignments may first change after a restart.
	adoptUntil time.Time
}

// New reads the state from the store.
func New(o Options) (*Control, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Grace, o.Addresses = cmp.Or(o.Grace, defaultGrace), cmp.Or(o.Addresses, addressesOfAgent)
	o.Agents = cmp.Or(o.Agents, defaultAgents)
	if o.Refused == nil {
		o.Refused = func(string, error) {}
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	c := &Control{
		Options: o,
		wake:    make(chan struct{}, 1), pulseSoon: make(chan struct{}, 1), notices: notices{of: map[string]notice{}},
	}
	c.rounded, c.began = o.Now(), o.Now()
	if err := c.Reload(context.Background()); err != nil {
		return nil, err
	}
	return c, nil
}

// Run runs the sessions until the context ends, or another server has written the state: then
// it is to be read again. Agents continue without it until their leases expire. Only one Run at a time.
func (c *Control) Run(ctx context.Context) error {
	var others sync.WaitGroup
	defer others.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Leases must not wait for a slow disk.
	others.Go(func() { c.pulses(ctx) })
	ticker := time.NewTicker(roundEvery)
	defer ticker.Stop()
	for {
		held := c.round(ctx, &others)
		if err := c.superseded(); err != nil {
			return err
		}
		select { // reports of agents, which wait for the lock, have at least as much time as rounds
		case <-ctx.Done():
		case <-time.After(held):
		}
		select {
		case <-ctx.Done():
			c.save()
			return nil
		case <-ticker.C:
		case <-c.wake:
		}
	}
}

// Health returns an error if sessions are not being controlled.
func (c *Control) Health() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if silent := c.Now().Sub(c.rounded); silent > healthyFor {
		return fmt.Errorf("control sessions: no progress for %v", silent.Round(time.Second))
	}
	return c.unsaved
}

// superseded returns an error if another server has written the state since this one read it.
func (c *Control) superseded() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(c.unsaved, store.ErrChanged) {
		return fmt.Errorf("control sessions: %w", c.unsaved)
	}
	return nil
}

// hurry requests an immediate round.
func (c *Control) hurry() { signal(c.wake) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// round computes the desired tasks of all agents and sends them where they differ. It returns
// for how long it held the lock.
func (c *Control) round(ctx context.Context, asks *sync.WaitGroup) time.Duration {
	c.mu.Lock()
	began, now := time.Now(), c.Now()
	c.watch(now)
	c.schedule(now)
	c.release(now)
	c.reportConflicts(now)
	c.settle(c.assign(now), now)
	questions := c.questions(now)
	c.rounded = now
	held := time.Since(began)
	c.mu.Unlock()
	// Assignments are kept across restarts, so they are written before they are sent.
	c.save()
	for _, q := range questions {
		asks.Go(func() { c.tell(ctx, q) })
	}
	return held
}

// event raises an event. The caller holds the lock; a sink does not block.
func (c *Control) event(kind, level, agent, session, format string, a ...any) {
	c.Events.Event(event.Event{
		Time: c.Now(), Kind: kind, Level: level, Agent: agent, Session: session, Message: fmt.Sprintf(format, a...),
	})
}
