package duckdb

import (
	"pillion.dev/archive/ledger"

	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errRoom ends a query whose memory was needed for storing.
var errRoom = errors.New("aborted to free memory for storing rows; query fewer rows")

const (
	roomTries = 10
	roomTime  = 5 * interruptEvery
)

// roomy returns a context that ends when queries have to release their memory.
func (a *Archive) roomy() context.Context {
	a.room.Lock()
	defer a.room.Unlock()
	if a.room.Context == nil {
		a.room.Context, a.room.end = context.WithCancel(context.Background())
	}
	return a.room.Context
}

// makeRoom ends all running queries.
func (a *Archive) makeRoom() {
	a.room.Lock()
	defer a.room.Unlock()
	if a.room.Context != nil {
		a.room.end()
		a.room.Context = nil
	}
}

// writeFirst writes a commit. If queries use all the memory, it ends them: rows that
// cannot be stored accumulate on all agents.
func (a *Archive) writeFirst(ctx context.Context, c *commit) error {
	err := a.writeOnce(ctx, c)
	for range roomTries {
		if err == nil || !noMemory(err) {
			return err
		}
		a.makeRoom()
		select {
		case <-ctx.Done():
			return err
		case <-time.After(roomTime):
		}
		err = a.writeOnce(ctx, c)
	}
	return err
}

// noMemory reports whether DuckDB ran out of memory; the appender has messages of its own
// for that.
func noMemory(err error) bool {
	text := err.Error()
	for _, sign := range []string{"Out of Memory Error", "failed to allocate data of size", "could not allocate block of size"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

// writeOnce writes and verifies errors: DuckDB can fail in the cleanup after a transaction
// that is on disk, and a retry would store its rows twice.
func (a *Archive) writeOnce(ctx context.Context, c *commit) error {
	if a.doubt { // an earlier attempt may be on disk
		if err := a.recall(ctx); err != nil || a.holds(c) {
			return err
		}
	}
	err := a.write(ctx, c)
	if err == nil || ofData(err) {
		return err
	}
	if failed := a.recall(ctx); failed != nil {
		a.doubt = true // until the state can be read
		return errors.Join(err, failed)
	}
	if a.holds(c) {
		return nil
	}
	return err
}

// recall reloads the delivery state from disk.
func (a *Archive) recall(ctx context.Context) error {
	states, revision, logged, err := a.writer.loadDeliveries(ctx)
	if err != nil {
		return fmt.Errorf("read delivery state: %w", err)
	}
	a.book.Load(states)
	a.revision, a.logged, a.doubt = revision, logged, false
	if err := a.loadArrivals(ctx); err != nil {
		a.doubt = true
		return fmt.Errorf("read arrivals: %w", err)
	}
	return nil
}

// holds reports whether all new batches of a commit are on disk.
func (a *Archive) holds(c *commit) bool {
	for i, fresh := range c.Stored {
		b := &c.Batches[i]
		if state := a.book.Get(ledger.SenderOf(b)); fresh && (state == nil || !state.Has(b.Sequence)) {
			return false
		}
	}
	return true
}
