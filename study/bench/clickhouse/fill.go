package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/archive/clickhouse"
	"pillion.dev/measure"
	"pillion.dev/study/bench/result"
)

// epoch is when the rows begin; a whole hour.
var epoch = time.Unix(1_760_000_400, 0).UTC()

func fillCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	folder := f.String("folder", "clickhouse", "folder of the server's files, which is made")
	rows := f.Int64("rows", 100_000_000, "rows, rounded up to a minute of 1156 rows a second")
	copies := f.Int("copies", 0, "how many hours before the rows are copies of their first one; they count as rows, and the rest is at least 90 minutes")
	rollUp := f.Duration("rollup", 2*time.Second, "how often rows are added up; rows of the last minute are not, as in a server")
	return func(ctx context.Context) (out result.Result, err error) {
		if *rows < 1 {
			return nil, fmt.Errorf("invalid -rows %d: want a positive number", *rows)
		}
		minutes := (*rows + hosts*batchRows - 1) / (hosts * batchRows)
		if *copies < 0 || *copies > 0 && minutes-int64(*copies)*60 < 60+hourlyLag {
			return nil, fmt.Errorf("invalid -copies %d: want at most %d for so many rows", *copies, max(0, (minutes-60-hourlyLag)/60))
		}
		begun := time.Now()
		err = with(ctx, *folder, func(s *server) error {
			size, err := fill(ctx, s, minutes, *copies, *rollUp)
			took := time.Since(begun).Seconds()
			n := minutes * hosts * batchRows
			out = result.Result{"rows": n, "hours": float64(minutes) / 60, "seconds": took, "rows_per_s": float64(n) / took, "archive_bytes_per_row": float64(size) / float64(n)}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("fill archive: %w", err)
		}
		return out, nil
	}
}

// hourlyLag is how many minutes of rows are rolled up to minutes only, at least.
const hourlyLag = 30

// filling stores minutes of the mesh, one after the other.
type filling struct {
	s       *server
	mesh    *batches
	options clickhouse.Options
	now     atomic.Int64 // rows arrive when they are measured
	minute  int64
	copied  int64 // before which hours are copies; 0: none are
}

// fill stores minutes of the mesh, of which some hours are copies, and returns the size of the
// archive in bytes. Rows arrive much faster than they are measured, so it waits for roll-ups where
// a server would have made them.
func fill(ctx context.Context, s *server, minutes int64, copies int, rollUp time.Duration) (size int64, err error) {
	f := &filling{s: s, mesh: newBatches(), minute: int64(copies) * 60}
	f.now.Store(epoch.UnixNano())
	f.options = clickhouse.Options{RollUp: rollUp, Now: func() time.Time { return time.Unix(0, f.now.Load()) }}
	if err := f.rolledUp(ctx, (minutes-hourlyLag)/60*60, "flows_1h"); err != nil {
		return 0, err
	}
	if copies > 0 {
		if err := copyHours(ctx, s, epoch.Add(time.Duration(copies)*time.Hour), copies); err != nil {
			return 0, err
		}
		f.copied = f.minute
	}
	if err := f.rolledUp(ctx, minutes-1, "flows_1m"); err != nil {
		return 0, err
	}
	f.options.RollUp = -1
	err = s.archive(f.options, func(a *clickhouse.Archive) error {
		if err := f.until(ctx, a, minutes); err != nil {
			return err
		}
		size, err = a.Size()
		return err
	})
	return size, err
}

// rolledUp stores minutes until one, and waits until they are in a level.
func (f *filling) rolledUp(ctx context.Context, end int64, level string) error {
	if f.minute >= end {
		return nil
	}
	return f.s.archive(f.options, func(a *clickhouse.Archive) error {
		if err := f.until(ctx, a, end); err != nil {
			return err
		}
		if err := awaitRollUps(ctx, a, measure.Flows.Name, level, end); err != nil || f.copied == 0 {
			return err
		}
		return awaitRollUps(ctx, a, "_flows_1h", "flows_6h", f.copied)
	})
}

// until stores minutes until one.
func (f *filling) until(ctx context.Context, a *clickhouse.Archive, end int64) error {
	for ; f.minute < end; f.minute++ {
		begin := epoch.Add(time.Duration(f.minute) * batchSeconds * time.Second)
		f.now.Store(begin.Add(batchSeconds * time.Second).UnixNano())
		if err := storeMinute(ctx, a, f.mesh, uint64(f.minute), begin); err != nil {
			return err
		}
		if f.minute%100 == 99 {
			fmt.Fprintf(os.Stderr, "filled %d of %d minutes\n", f.minute+1, end)
		}
	}
	return nil
}

// awaitRollUps waits until all rows of a table until a minute are rolled up into a level.
func awaitRollUps(ctx context.Context, a *clickhouse.Archive, table, level string, minute int64) error {
	end := epoch.Add(time.Duration(minute) * time.Minute)
	sql := fmt.Sprintf("SELECT count() AS n FROM %[1]s.%[2]s WHERE time < %[4]d AND _commit > (SELECT max(commit) FROM %[1]s._marks WHERE level = '%[3]s')", database, table, level, end.UnixNano())
	for {
		var left uint64
		err := a.Query(ctx, sql, nil, archive.Limits{}, func(r arrow.RecordBatch) error {
			if column, is := r.Column(0).(*array.Uint64); is && r.NumRows() == 1 {
				left = column.Value(0)
			}
			return nil
		})
		if err != nil || left == 0 {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d rows are not in %s\n", left, level)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
		}
	}
}

// storeMinute stores a batch of each host together.
func storeMinute(ctx context.Context, a archive.Archive, mesh *batches, sequence uint64, begin time.Time) error {
	list := make([]archive.Batch, hosts)
	for i := range list {
		record := mesh.at(i, begin)
		defer record.Release()
		list[i] = archive.Batch{Agent: host(i), Key: measure.Key{Stream: measure.Flows.Name, Epoch: 1, Sequence: sequence}, Oldest: sequence, Schema: &measure.Flows, Record: record}
	}
	_, rejected, err := a.Store(ctx, list)
	for i, why := range rejected {
		return fmt.Errorf("batch of %s was rejected: %w", host(i), why)
	}
	return err
}
