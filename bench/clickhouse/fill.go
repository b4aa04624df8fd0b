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
	"pillion.dev/bench/result"
	"pillion.dev/measure"
)

// epoch is when the rows begin; a whole hour.
var epoch = time.Unix(1_760_000_400, 0).UTC()

func fillCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	folder := f.String("folder", "clickhouse", "folder of the server's files, which is made")
	rows := f.Int64("rows", 100_000_000, "rows, rounded up to a minute of 1156 rows a second")
	copies := f.Int("copies", 0, "how many hours before the rows are copies of their first one; they count as rows, and the rest is at least 90 minutes")
	rollUp := f.Duration("rollup", 2*time.Second, "how often rows are added up; those of the last minute are not, as in a server")
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

// hourlyLag is how many minutes of rows are rolled up to minutes only, on average.
const hourlyLag = 30

// fill stores minutes of the mesh, of which some hours are copies, and returns the size of the
// archive in bytes. Rows arrive much faster than they are measured, so it waits for roll-ups where
// a server would have made them.
func fill(ctx context.Context, s *server, minutes int64, copies int, rollUp time.Duration) (size int64, err error) {
	var now atomic.Int64 // rows arrive when they are measured
	now.Store(epoch.UnixNano())
	options := clickhouse.Options{RollUp: rollUp, Now: func() time.Time { return time.Unix(0, now.Load()) }}
	mesh := newBatches()
	store := func(a *clickhouse.Archive, minute int64) error {
		begin := epoch.Add(time.Duration(minute) * batchSeconds * time.Second)
		now.Store(begin.Add(batchSeconds * time.Second).UnixNano())
		return storeMinute(ctx, a, mesh, uint64(minute), begin)
	}
	from := int64(copies) * 60
	for _, part := range []struct {
		until int64
		level string
	}{{minutes - hourlyLag, "flows_1h"}, {minutes - 1, "flows_1m"}} {
		if from >= part.until {
			continue
		}
		err = s.archive(options, func(a *clickhouse.Archive) error {
			for ; from < part.until; from++ {
				if err := store(a, from); err != nil {
					return err
				}
				if from%100 == 99 {
					fmt.Fprintf(os.Stderr, "filled %d of %d minutes\n", from+1, minutes)
				}
			}
			return awaitRollUps(ctx, a, part.level)
		})
		if err != nil {
			return 0, err
		}
	}
	options.RollUp = -1
	err = s.archive(options, func(a *clickhouse.Archive) error {
		if err := store(a, minutes-1); err != nil {
			return err
		}
		if err := copyHours(ctx, s, epoch.Add(time.Duration(copies)*time.Hour), copies); err != nil {
			return err
		}
		size, err = a.Size()
		return err
	})
	return size, err
}

// awaitRollUps waits until all rows are rolled up into a level.
func awaitRollUps(ctx context.Context, a *clickhouse.Archive, level string) error {
	sql := fmt.Sprintf("SELECT count() AS n FROM %[1]s.flows WHERE _commit > (SELECT max(commit) FROM %[1]s._marks WHERE level = '%[2]s')", database, level)
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
