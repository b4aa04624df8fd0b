package duckdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// errRoom is the end of a question that took what storing needed.
var errRoom = errors.New("its memory was needed to store rows; ask for less")

const (
	roomTries = 10
	roomTime  = 5 * interruptEvery
)

// roomy is a context that lasts as long as there is memory for questions.
func (a *Archive) roomy() context.Context {
	a.room.Lock()
	defer a.room.Unlock()
	if a.room.Context == nil {
		a.room.Context, a.room.end = context.WithCancel(context.Background())
	}
	return a.room.Context
}

// makeRoom ends all questions that run.
func (a *Archive) makeRoom() {
	a.room.Lock()
	defer a.room.Unlock()
	if a.room.Context != nil {
		a.room.end()
		a.room.Context = nil
	}
}

// writeFirst writes a commit; where questions have taken all memory they end, since
// rows that cannot be stored pile up on all agents.
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

// noMemory reports whether DuckDB lacked memory; what fills a row says so in words of
// its own.
func noMemory(err error) bool {
	text := err.Error()
	return strings.Contains(text, "Out of Memory Error") || strings.Contains(text, "failed to allocate data of size")
}

// writeOnce writes, and does not trust an error: DuckDB can fail at tidying up after
// a transaction that is on disk. Tried again, its rows would be there twice.
func (a *Archive) writeOnce(ctx context.Context, c *commit) error {
	err := a.write(ctx, c)
	if err == nil || ofData(err) {
		return err
	}
	if failed := a.recall(ctx); failed != nil {
		a.doubt = true // until it can be looked at
		return errors.Join(err, failed)
	}
	if a.holds(c) {
		return nil
	}
	return err
}

// recall reads what is on disk of deliveries.
func (a *Archive) recall(ctx context.Context) error {
	states, revision, logged, err := a.writer.loadDeliveries(ctx)
	if err != nil {
		return fmt.Errorf("read delivery state: %w", err)
	}
	a.cache.Lock()
	defer a.cache.Unlock()
	a.deliveries, a.revision, a.logged, a.doubt = states, revision, logged, false
	return nil
}

// holds reports whether all new batches of a commit are on disk.
func (a *Archive) holds(c *commit) bool {
	for i, fresh := range c.stored {
		b := &c.batches[i]
		if state := a.deliveries[sender{b.Agent, b.Stream, b.Epoch}]; fresh && (state == nil || !state.has(b.Sequence)) {
			return false
		}
	}
	return true
}
