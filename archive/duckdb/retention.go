package duckdb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/ledger"
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
	err := c.query(ctx, "SELECT stream, age_ns, rows, bytes FROM pillion.retention", nil, answer.Each(func(r answer.Row) {
		out[r.Text(0)] = archive.Retention{Age: time.Duration(r.Int(1)), Rows: r.Int(2), Bytes: r.Int(3)}
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

// Retain implements archive.Archive. The age is that since arrival, so that a sender
// cannot choose it. Beyond a bound
// on rows or bytes the agents with the most rows lose their oldest arrivals, those below
// an equal share lose none. Slightly more than necessary may be removed. The bytes of a
// stream are estimated from its blocks on disk.
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
	a.book.ExpireSilent(now)
	removed := map[string]int64{}
	dropped := false
	for _, stream := range slices.Sorted(maps.Keys(a.catalog.Schemas)) {
		n, left, err := a.retain(ctx, stream, a.retention[stream], now)
		if err == nil && left == 0 {
			var empty bool
			empty, err = a.dropEmpty(ctx, stream, now)
			dropped = dropped || empty
		}
		if err != nil {
			return removed, fmt.Errorf("retain %q: %w", stream, a.judge(err))
		}
		if n > 0 {
			removed[stream] = n
		}
	}
	if len(removed) > 0 || dropped {
		// Without this the space would be reused only once the log is full. If a running
		// query prevents it, the next checkpoint will do.
		if err := a.writer.exec(ctx, "CHECKPOINT"); err != nil && (noSpace(err) || fatal(err)) {
			return removed, fmt.Errorf("retain: %w", a.judge(err))
		}
	}
	return removed, nil
}

func (a *Archive) retain(ctx context.Context, stream string, r archive.Retention, now time.Time) (removed, left int64, err error) {
	if r.Age > 0 {
		if removed, err = a.writer.number(ctx, "DELETE FROM "+tableOf(stream)+" WHERE "+quoted(archive.ArrivalColumn)+" < ?", now.Add(-r.Age)); err != nil {
			return 0, 0, err
		}
	}
	left, err = a.writer.number(ctx, "SELECT count(*) FROM "+tableOf(stream))
	if err != nil {
		return removed, 0, err
	}
	keep := left
	if r.Rows > 0 {
		keep = min(keep, r.Rows)
	}
	if r.Bytes > 0 && left > 0 {
		if err := a.writer.exec(ctx, "CHECKPOINT"); err != nil {
			return removed, left, err // only blocks on disk are counted
		}
		blocks, err := a.writer.number(ctx, `SELECT count(DISTINCT b) FROM (
			SELECT unnest(list_append(additional_block_ids, block_id)) AS b FROM pragma_storage_info(?)) WHERE b >= 0`, stream)
		if err != nil {
			return removed, left, err
		}
		if size := blocks * blockBytes; size > r.Bytes {
			keep = min(keep, int64(float64(left)*float64(r.Bytes)/float64(size)))
		}
	}
	if keep < left {
		n, err := a.evict(ctx, stream, keep)
		return removed + n, left - n, err
	}
	return removed, left, nil
}

// evictSteps is the resolution of evict, in parts of the table, over all agents.
const evictSteps = 1 << 20

// evict removes the oldest arrivals of the agents with the most rows, until at most keep
// rows are left. Rows lie in the order of arrival; it counts them in steps of their
// numbers, which needs constant memory.
func (a *Archive) evict(ctx context.Context, stream string, keep int64) (int64, error) {
	table := tableOf(stream)
	low, err := a.writer.number(ctx, "SELECT min(rowid) FROM "+table)
	if err != nil {
		return 0, err
	}
	high, err := a.writer.number(ctx, "SELECT max(rowid) FROM "+table)
	if err != nil {
		return 0, err
	}
	agents, err := a.writer.number(ctx, "SELECT count(DISTINCT "+quoted(archive.AgentColumn)+") FROM "+table)
	if err != nil {
		return 0, err
	}
	width := (high-low)/max(evictSteps/max(agents, 1), 64) + 1
	steps, totals := map[string][]stepRows{}, map[string]int64{}
	err = a.writer.query(ctx, "SELECT "+quoted(archive.AgentColumn)+", (rowid - ?) // ? AS step, count(*) FROM "+table+" GROUP BY ALL ORDER BY step",
		[]any{low, width}, answer.Each(func(r answer.Row) {
			agent := strings.Clone(r.Text(0))
			steps[agent] = append(steps[agent], stepRows{r.Int(1), r.Int(2)})
			totals[agent] += r.Int(2)
		}))
	if err != nil {
		return 0, err
	}
	share := ledger.FairShare(slices.Collect(maps.Values(totals)), keep)
	var cuts []string
	var arguments []any
	for agent, total := range totals {
		for _, step := range steps[agent] {
			if total <= share {
				break
			}
			total -= step.rows
			if total <= share {
				cuts, arguments = append(cuts, "(?, ?)"), append(arguments, agent, low+(step.step+1)*width)
			}
		}
	}
	if len(cuts) == 0 {
		return 0, nil
	}
	return a.writer.number(ctx, fmt.Sprintf("DELETE FROM %s AS kept USING (VALUES %s) AS cuts(agent, cut) WHERE kept.%s = cuts.agent AND kept.rowid < cuts.cut",
		table, strings.Join(cuts, ", "), quoted(archive.AgentColumn)), arguments...)
}

// stepRows are the rows of an agent in one step.
type stepRows struct{ step, rows int64 }

// number returns the single number that is a statement's result.
func (c *connection) number(ctx context.Context, sql string, arguments ...any) (int64, error) {
	var out int64
	err := c.query(ctx, sql, arguments, answer.Each(func(r answer.Row) {
		if !r.IsNull(0) {
			out = r.Int(0)
		}
	}))
	return out, err
}
