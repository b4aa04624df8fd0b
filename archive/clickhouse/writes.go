package clickhouse

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// writes are rows for the archive's own tables. Inserts with a quorum into a table follow one
// another, so rows that wait for one are inserted together: a server that takes the lanes of
// another one writes as many at once as it opens.
type writes struct {
	mutex   sync.Mutex
	waiting map[string][]*write // by table; no key: none is under way
	group   sync.WaitGroup
}

// write is what one caller inserts.
type write struct {
	ctx  context.Context
	rows [][]any
	done chan error // of one
}

// write inserts rows into one of the archive's own tables, with a quorum. All callers that
// name a table name the same columns.
func (a *Archive) write(ctx context.Context, table string, columns []string, rows ...[]any) error {
	one := &write{ctx: ctx, rows: rows, done: make(chan error, 1)}
	w := &a.writes
	w.mutex.Lock()
	if w.waiting == nil {
		w.waiting = map[string][]*write{}
	}
	_, underWay := w.waiting[table]
	w.waiting[table] = append(w.waiting[table], one)
	if !underWay {
		w.group.Go(func() { a.writeWaiting(table, columns) })
	}
	w.mutex.Unlock()
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return ctx.Err() // the rows may be inserted all the same, as with any insert that is ended
	}
}

// writeWaiting inserts what waits for a table, until nothing does.
func (a *Archive) writeWaiting(table string, columns []string) {
	w := &a.writes
	for {
		w.mutex.Lock()
		all := w.waiting[table]
		if len(all) == 0 {
			delete(w.waiting, table)
			w.mutex.Unlock()
			return
		}
		w.waiting[table] = nil
		w.mutex.Unlock()
		err := a.writeTogether(all, table, columns)
		for _, one := range all {
			one.done <- err
		}
	}
}

// writeTogether is ended when nobody waits for it any more.
func (a *Archive) writeTogether(all []*write, table string, columns []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), insertMost)
	defer cancel()
	var left atomic.Int64
	left.Store(int64(len(all)))
	var rows [][]any
	for _, one := range all {
		defer context.AfterFunc(one.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})()
		rows = append(rows, one.rows...)
	}
	for {
		err := a.anywhere(ctx, func(ctx context.Context, n *node) error { return a.insertOwn(ctx, n, table, columns, rows) })
		if err == nil || !retryable(err) || ctx.Err() != nil {
			return err
		}
		a.complete(ctx, err)
		if pause(ctx, retryAfter) != nil {
			return err
		}
	}
}

// insertOwn inserts rows into one of the archive's own tables at a node.
func (a *Archive) insertOwn(ctx context.Context, n *node, table string, columns []string, rows [][]any) error {
	f, err := n.identify(ctx)
	if err != nil {
		return err
	}
	settings := f.insert("", min(a.quorum(), 2))
	delete(settings, "insert_deduplication_token")
	settings["insert_deduplicate"] = 0
	b, err := n.PrepareBatch(driver.Context(ctx, driver.WithSettings(settings)), fmt.Sprintf("INSERT INTO %s (%s) VALUES", a.own(table), names(columns)))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := b.Append(row...); err != nil {
			_ = b.Abort()
			return err
		}
	}
	return b.Send()
}
