package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"time"

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
	rollUp := f.Duration("rollup", 2*time.Second, "how often rows are added up; at the end the last of them are not, as in a server")
	return func(ctx context.Context) (out result.Result, err error) {
		if *rows < 1 {
			return nil, fmt.Errorf("invalid -rows %d: want a positive number", *rows)
		}
		minutes := (*rows + hosts*batchRows - 1) / (hosts * batchRows)
		begun := time.Now()
		err = with(ctx, *folder, func(s *server) error {
			size, err := fill(ctx, s, minutes, *rollUp)
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

// fill stores minutes of the mesh, and returns the size of the archive in bytes.
func fill(ctx context.Context, s *server, minutes int64, rollUp time.Duration) (size int64, err error) {
	var now atomic.Int64 // rows arrive when they are measured
	now.Store(epoch.UnixNano())
	a, err := s.open(clickhouse.Options{RollUp: rollUp, Now: func() time.Time { return time.Unix(0, now.Load()) }})
	if err != nil {
		return 0, err
	}
	defer func() {
		if failed := a.Close(); err == nil {
			err = failed
		}
	}()
	mesh := newBatches()
	for minute := range minutes {
		begin := epoch.Add(time.Duration(minute) * batchSeconds * time.Second)
		now.Store(begin.Add(batchSeconds * time.Second).UnixNano())
		if err := storeMinute(ctx, a, mesh, uint64(minute), begin); err != nil {
			return 0, err
		}
		if minute%100 == 99 {
			fmt.Fprintf(os.Stderr, "filled %d of %d minutes\n", minute+1, minutes)
		}
	}
	return a.Size()
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
