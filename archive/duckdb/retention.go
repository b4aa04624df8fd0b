package duckdb

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"pillion.dev/archive"
)

// blockBytes is the unit in which DuckDB writes.
const blockBytes = 256 << 10

// SetRetention is on disk after the next Retain or Close.
func (a *Archive) SetRetention(stream string, retention archive.Retention) {
	a.cache.Lock()
	defer a.cache.Unlock()
	a.retention[stream] = retention
	a.unsaved = true
}

func (c *connection) loadRetention(ctx context.Context) (map[string]archive.Retention, error) {
	out := map[string]archive.Retention{}
	err := c.query(ctx, "SELECT stream, age_ns, rows, bytes FROM pillion.retention", nil, each(func(r resultRow) {
		out[r.text(0)] = archive.Retention{Age: time.Duration(r.int(1)), Rows: r.int(2), Bytes: r.int(3)}
	}))
	return out, err
}

// saveRetention needs writing.
func (a *Archive) saveRetention(ctx context.Context) error {
	a.cache.Lock()
	unsaved, retention := a.unsaved, maps.Clone(a.retention)
	a.unsaved = false
	a.cache.Unlock()
	if !unsaved {
		return nil
	}
	err := a.writer.inTransaction(ctx, func() error {
		if err := a.writer.exec(ctx, "DELETE FROM pillion.retention"); err != nil {
			return err
		}
		for stream, r := range retention {
			if err := a.writer.exec(ctx, "INSERT INTO pillion.retention VALUES (?, ?, ?, ?)", stream, int64(r.Age), r.Rows, r.Bytes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		a.cache.Lock()
		a.unsaved = true
		a.cache.Unlock()
		return fmt.Errorf("save retention: %w", a.judge(err))
	}
	return nil
}

// Retain implements archive.Archive. Rows of the same nanosecond are removed together, so
// slightly more than necessary may be removed. The bytes of a stream are estimated from
// its blocks on disk.
func (a *Archive) Retain(ctx context.Context, now time.Time) (map[string]int64, error) {
	done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := a.saveRetention(ctx); err != nil {
		return nil, err
	}
	removed := map[string]int64{}
	for _, stream := range slices.Sorted(maps.Keys(a.retention)) {
		if a.schemas[stream] == nil {
			continue
		}
		n, err := a.retain(ctx, stream, a.retention[stream], now)
		if err != nil {
			return removed, fmt.Errorf("retain %q: %w", stream, a.judge(err))
		}
		if n > 0 {
			removed[stream] = n
		}
	}
	if len(removed) > 0 {
		// Without this the space would be reused only once the log is full. If a running
		// query prevents it, the next checkpoint will do.
		if err := a.writer.exec(ctx, "CHECKPOINT"); err != nil && (noSpace(err) || fatal(err)) {
			return removed, fmt.Errorf("retain: %w", a.judge(err))
		}
	}
	return removed, nil
}

func (a *Archive) retain(ctx context.Context, stream string, r archive.Retention, now time.Time) (int64, error) {
	cutoff := int64(math.MinInt64)
	if r.Age > 0 {
		cutoff = now.Add(-r.Age).UnixNano()
	}
	rows, err := a.writer.number(ctx, "SELECT count(*) FROM "+tableOf(stream))
	if err != nil {
		return 0, err
	}
	keep := rows
	if r.Rows > 0 {
		keep = min(keep, r.Rows)
	}
	if r.Bytes > 0 && rows > 0 {
		if err := a.writer.exec(ctx, "CHECKPOINT"); err != nil {
			return 0, err // only blocks on disk are counted
		}
		blocks, err := a.writer.number(ctx, `SELECT count(DISTINCT b) FROM (
			SELECT unnest(list_append(additional_block_ids, block_id)) AS b FROM pragma_storage_info(?)) WHERE b >= 0`, stream)
		if err != nil {
			return 0, err
		}
		if size := blocks * blockBytes; size > r.Bytes {
			keep = min(keep, int64(float64(rows)*float64(r.Bytes)/float64(size)))
		}
	}
	if keep < rows {
		at, err := a.writer.cutoff(ctx, stream, rows-keep)
		if err != nil {
			return 0, err
		}
		cutoff = max(cutoff, at)
	}
	if cutoff == math.MinInt64 {
		return 0, nil
	}
	return a.writer.number(ctx, "DELETE FROM "+tableOf(stream)+" WHERE time < ?", time.Unix(0, cutoff))
}

// steps of the histogram by which cutoff narrows the range.
const cutoffSteps = 4096

// cutoff is the earliest time before which there are at least drop rows. It counts rows
// in ever smaller steps of time, which needs constant memory.
func (c *connection) cutoff(ctx context.Context, stream string, drop int64) (int64, error) {
	low, err := c.number(ctx, "SELECT epoch_ns(min(time)) FROM "+tableOf(stream))
	if err != nil {
		return 0, err
	}
	high, err := c.number(ctx, "SELECT epoch_ns(max(time)) FROM "+tableOf(stream))
	if err != nil {
		return 0, err
	}
	for {
		width := int64((uint64(high)-uint64(low))/cutoffSteps) + 1
		var before, step int64
		found := false
		err := c.query(ctx, "SELECT ((epoch_ns(time)::HUGEINT - ?) // ?)::BIGINT AS step, count(*) FROM "+tableOf(stream)+
			" WHERE time BETWEEN ? AND ? GROUP BY step ORDER BY step",
			[]any{low, width, time.Unix(0, low), time.Unix(0, high)}, each(func(r resultRow) {
				if found {
					return
				}
				step = r.int(0)
				if found = before+r.int(1) >= drop; !found {
					before += r.int(1)
				}
			}))
		if err != nil {
			return 0, err
		}
		if !found {
			return high + 1, nil
		}
		if width == 1 {
			return low + step + 1, nil
		}
		drop -= before
		low += step * width
		high = low + width - 1
	}
}

// number returns the single number that is a statement's result.
func (c *connection) number(ctx context.Context, sql string, arguments ...any) (int64, error) {
	var out int64
	err := c.query(ctx, sql, arguments, each(func(r resultRow) {
		if !r.isNull(0) {
			out = r.int(0)
		}
	}))
	return out, err
}
