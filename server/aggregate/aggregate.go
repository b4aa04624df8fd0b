// Package aggregate merges the flows that a site's server has stored, by pair of agents or of
// prefixes and by window of time, and sends the sums to the server of the fleet.
//
// The archive is the queue: it passes on the rows of flows in the order of their arrival, each
// once. The mark up to which they were taken, the windows that are not yet complete and the batches
// that are not yet acknowledged are one file, which is replaced as a whole. So each stored row
// counts exactly once in what leaves the site, whatever is restarted: batches that are sent again
// after a restart have the same key, by which the other server stores them once.
//
// It does not know the bus: the caller sends the batches. Raw rows stay in the archive of the site.
package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// Options of an Aggregator.
type Options struct {
	Archive archive.Arrivals
	// Folder has the file of the state.
	Folder string
	Merging
	// Send sends a batch of an agent of the site; bus.ErrRejected is permanent.
	Send func(ctx context.Context, agent string, batch measure.Envelope) error
	// Now is the server's time; default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Merging is how rows are merged.
type Merging struct {
	// Window is the length of the windows. A row belongs to the window of its middle.
	Window time.Duration
	// Lateness is how long after its end a window waits for rows. Rows that come later are sent in
	// another row of the same window.
	Lateness time.Duration
	// Prefixes keeps a row for each pair of prefixes of these lengths; else rows are merged for each pair of
	// agents.
	Prefixes   bool
	IPv4, IPv6 int
}

const (
	// rowsMost bounds the rows that are taken at once, after an outage.
	rowsMost = 100_000
	// openMost bounds the windows of pairs that are not complete: with more, all are sent.
	openMost = 200_000
	senders  = 8
	// lastRetry is the longest time between attempts.
	firstRetry, lastRetry = 100 * time.Millisecond, 10 * time.Second
)

// Aggregator merges and sends. Only one goroutine may call Step or Run.
type Aggregator struct {
	options Options
	state   state
	stale   bool // the state in memory differs from the file
	// epoch and next number the batches of this process, by agent.
	epoch uint64
	next  map[string]uint64
	stats struct{ taken, removed, foreign, sent, rejected, open atomic.Uint64 }
}

// Stats count rows since the start.
type Stats struct {
	Taken    uint64 // raw rows
	Removed  uint64 // raw rows that retention removed before they were taken
	Foreign  uint64 // raw rows of other sites, which are not sent
	Sent     uint64 // merged rows
	Rejected uint64 // merged rows that the other server rejected
	Open     uint64 // windows of pairs that are not complete now
}

// Open reads the state, or begins with the rows that are stored from now on.
func Open(ctx context.Context, options Options) (*Aggregator, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	a := &Aggregator{options: options}
	a.begin()
	found, err := a.load()
	if err == nil && !found {
		if a.state.Mark, err = options.Archive.LastArrival(ctx, measure.Flows.Name); err == nil {
			err = a.save()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open aggregation: %w", err)
	}
	return a, nil
}

// begin begins new sequences of batches.
func (a *Aggregator) begin() { a.epoch, a.next = rand.Uint64(), map[string]uint64{} }

// Stats returns the current counts.
func (a *Aggregator) Stats() Stats {
	s := &a.stats
	return Stats{
		Taken: s.taken.Load(), Removed: s.removed.Load(), Foreign: s.foreign.Load(), Sent: s.sent.Load(),
		Rejected: s.rejected.Load(), Open: s.open.Load(),
	}
}

// Run steps until the context ends.
func (a *Aggregator) Run(ctx context.Context) {
	tick := min(max(a.options.Window/5, time.Second), 10*time.Second)
	retry, failing := firstRetry, ""
	for ctx.Err() == nil {
		more, err := a.Step(ctx)
		wait := tick
		switch {
		case err != nil && ctx.Err() == nil:
			if text := err.Error(); text != failing {
				a.options.Log.Warn("aggregate flows", "error", err)
				failing = text
			}
			wait, retry = retry, min(2*retry, lastRetry)
		case more:
			wait, retry, failing = 0, firstRetry, ""
		default:
			retry, failing = firstRetry, ""
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// Step sends what is due, and takes rows that have been stored since; more: there are others.
// After an error the next step repeats it.
func (a *Aggregator) Step(ctx context.Context) (more bool, err error) {
	if a.stale {
		if _, err := a.load(); err != nil {
			return false, err
		}
	}
	if err := a.deliver(ctx); err != nil {
		return false, fmt.Errorf("send merged rows: %w", err)
	}
	if more, err = a.take(ctx); err != nil {
		a.stale = true
		a.begin()
		return false, err
	}
	return more, nil
}

// take merges rows into the windows and moves those that are complete to the outbox. What it
// changes counts once it is in the file.
func (a *Aggregator) take(ctx context.Context) (more bool, err error) {
	now, last := a.options.Now(), time.Time{}
	foreign := uint64(0)
	got, err := a.options.Archive.Arrived(ctx, measure.Flows.Name, a.state.Mark, rowsMost, func(record arrow.RecordBatch) error {
		last = latest(last, record)
		for row, err := range flows.Stored(record) {
			if err != nil {
				return err
			}
			if !bus.ValidAgent(row.Destination) {
				foreign++
				continue
			}
			a.state.add(&a.options.Merging, row, now)
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read stored rows: %w", err)
	}
	until := now
	if got.More && last.Before(now) { // catching up: time goes by as it did then
		until = last
	}
	due := a.state.due(&a.options.Merging, until)
	if got.Mark == a.state.Mark && len(due) == 0 {
		return false, nil
	}
	a.state.Mark = got.Mark
	if a.state.Outbox, err = a.pack(due); err != nil {
		return false, err
	}
	if err := a.save(); err != nil {
		return false, err
	}
	a.stats.taken.Add(uint64(got.Rows))
	a.stats.foreign.Add(foreign)
	a.stats.open.Store(uint64(len(a.state.open)))
	if got.Removed > 0 {
		a.stats.removed.Add(uint64(got.Removed))
		a.options.Log.Error("rows were removed by retention before they were merged", "stream", measure.Flows.Name, "rows", got.Removed)
	}
	return got.More || len(a.state.Outbox) > 0, nil
}

// deliver sends the batches of the outbox, each agent's in their order.
func (a *Aggregator) deliver(ctx context.Context) error {
	byAgent := map[string][]*message{}
	for i := range a.state.Outbox {
		m := &a.state.Outbox[i]
		if !m.sent {
			byAgent[m.Agent] = append(byAgent[m.Agent], m)
		}
	}
	queue := make(chan []*message, len(byAgent))
	for _, messages := range byAgent {
		queue <- messages
	}
	close(queue)
	var working sync.WaitGroup
	faults := make([]error, senders)
	for n := range senders {
		working.Go(func() {
			for messages := range queue {
				for _, m := range messages {
					if faults[n] = a.send(ctx, m); faults[n] != nil {
						return
					}
				}
			}
		})
	}
	working.Wait()
	for _, err := range faults { // they are likely to be the same
		if err != nil {
			return err
		}
	}
	a.state.Outbox = nil // in the file with the next change: what is sent again is stored once
	return nil
}

func (a *Aggregator) send(ctx context.Context, m *message) error {
	err := a.options.Send(ctx, m.Agent, m.Envelope)
	switch {
	case err == nil:
		a.stats.sent.Add(uint64(m.Rows))
	case errors.Is(err, bus.ErrRejected):
		a.stats.rejected.Add(uint64(m.Rows))
		a.options.Log.Error("merged rows are lost: the server rejects them", "agent", m.Agent, "rows", m.Rows, "error", err)
	default:
		return err
	}
	m.sent = true
	return nil
}

func (a *Aggregator) path() string { return filepath.Join(a.options.Folder, "aggregate.state") }
