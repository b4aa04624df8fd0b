package duckdb

import (
	"context"
	"time"

	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// emptyMost is how long a stream without rows is kept.
const emptyMost = 24 * time.Hour

// saveShapes notes in the running transaction who created or extended a stream.
func (a *Archive) saveShapes(ctx context.Context, c *commit, stream string) error {
	for agent, shapes := range c.Shapes {
		if n := shapes[stream]; n > 0 {
			if err := a.writer.exec(ctx, "INSERT INTO pillion.shapes VALUES (?, ?, ?)", agent, stream, int64(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadShapes reads them. The caller holds the cache's lock.
func (a *Archive) loadShapes(ctx context.Context) error {
	clear(a.catalog.Shapes)
	return a.writer.query(ctx, "SELECT agent, stream, columns FROM pillion.shapes", nil, answer.Each(func(r answer.Row) {
		a.catalog.AddShape(r.Text(0), r.Text(1), int(r.Int(2)))
	}))
}

// dropEmpty drops a stream that agents created, that has no rows and gets none. It needs
// writing.
func (a *Archive) dropEmpty(ctx context.Context, stream string, now time.Time) (bool, error) {
	if measure.FindStandard(stream) != nil || a.catalog.Declared[stream] || now.Sub(a.used[stream]) < emptyMost {
		return false, nil
	}
	if a.used[stream].IsZero() {
		a.used[stream] = now
		return false, nil
	}
	err := a.writer.inTransaction(ctx, func() error {
		if err := a.writer.exec(ctx, "DROP TABLE "+tableOf(stream)); err != nil {
			return err
		}
		if err := a.writer.exec(ctx, "DELETE FROM pillion.shapes WHERE stream = ?", stream); err != nil {
			return err
		}
		return a.writer.exec(ctx, "DELETE FROM pillion.streams WHERE stream = ?", stream)
	})
	if err != nil {
		return false, err
	}
	a.cache.Lock()
	defer a.cache.Unlock()
	a.catalog.Drop(stream)
	delete(a.used, stream)
	return true, nil
}
