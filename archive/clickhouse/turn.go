package clickhouse

import (
	"context"
	"strconv"
	"sync"
)

// turns lets the inserts with a quorum of this process follow one another, in the order in
// which they came: the servers refuse one while another one into the same table is under
// way, and those that are refused try again at random, some of them for a minute.
type turns struct {
	mutex  sync.Mutex
	tables map[string]chan struct{} // that has an element while an insert is under way
}

// wait returns once it is the caller's turn, which ends when done is called.
func (t *turns) wait(ctx context.Context, table string) (done func(), err error) {
	t.mutex.Lock()
	if t.tables == nil {
		t.tables = map[string]chan struct{}{}
	}
	turn := t.tables[table]
	if turn == nil {
		turn = make(chan struct{}, 1)
		t.tables[table] = turn
	}
	t.mutex.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// turn waits for the caller's turn to insert into a table of a shard.
func (a *Archive) turn(ctx context.Context, shard int, table string) (done func(), err error) {
	if a.quorum() < 2 {
		return func() {}, nil
	}
	return a.turns.wait(ctx, strconv.Itoa(shard)+"/"+table)
}
