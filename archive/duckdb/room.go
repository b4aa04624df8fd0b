package duckdb

import (
	"context"
	"errors"
	"strings"
	"time"
)

// errRoom is the end of a question that took what storing needed.
var errRoom = errors.New("the memory was needed to store rows; ask for less")

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
	err := a.write(ctx, c)
	for range roomTries {
		if err == nil || !strings.Contains(err.Error(), "Out of Memory Error") {
			return err
		}
		a.makeRoom()
		select {
		case <-ctx.Done():
			return err
		case <-time.After(roomTime):
		}
		err = a.write(ctx, c)
	}
	return err
}
