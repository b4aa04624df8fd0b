package duckdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// arrivals has a row for each transaction that stored rows of a stream whose arrivals are
// followed: their number, and the time by which they are found, which no other transaction has.
const arrivals = `CREATE TABLE IF NOT EXISTS pillion.arrivals (stream VARCHAR, revision UBIGINT, arrived TIMESTAMP_NS, rows BIGINT)`

var arrivalTypes = []measure.Type{measure.String, measure.Uint64, measure.Time, measure.Int64}

const (
	// stepMost is the step of the clock back up to which times of arrival go on ascending.
	// Retention goes by them: after a larger step they follow the clock, which does not show the
	// same nanosecond again.
	stepMost = time.Hour
	// arrivalsMost is how many rows that were passed on are kept in the table.
	arrivalsMost = 200
)

// loadArrivals makes revisions and times of arrival go on after those that were followed.
func (a *Archive) loadArrivals(ctx context.Context) error {
	if len(a.options.Arrivals) == 0 {
		return nil
	}
	return a.writer.query(ctx, "SELECT coalesce(max(revision), 0::UBIGINT), coalesce(epoch_ns(max(arrived)), 0) FROM pillion.arrivals", nil, answer.Each(func(r answer.Row) {
		a.revision, a.arrived = max(a.revision, r.Uint(0)), max(a.arrived, r.Int(1))
	}))
}

// arrivalTime is the time of arrival of a commit: later than any before, if the arrivals of
// streams are followed.
func (a *Archive) arrivalTime() time.Time {
	now := a.options.Now()
	if len(a.options.Arrivals) == 0 {
		return now
	}
	if ns := now.UnixNano(); ns <= a.arrived && a.arrived-ns < int64(stepMost) {
		now = time.Unix(0, a.arrived+1)
	}
	a.arrived = now.UnixNano()
	return now
}

// saveArrivals notes inside the running transaction what it stores of the streams that are
// followed.
func (c *connection) saveArrivals(followed []string, revision uint64, of *commit) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "stream", Type: measure.ArrowType(measure.String)}, {Name: "revision", Type: measure.ArrowType(measure.Uint64)},
		{Name: "arrived", Type: measure.ArrowType(measure.Time)}, {Name: "rows", Type: measure.ArrowType(measure.Int64)},
	}, nil))
	defer b.Release()
	n := 0
	for stream, places := range of.Streams {
		if !slices.Contains(followed, stream) {
			continue
		}
		rows := int64(0)
		for _, i := range places {
			rows += of.Batches[i].Record.NumRows()
		}
		b.Field(0).(*array.StringBuilder).Append(stream)
		b.Field(1).(*array.Uint64Builder).Append(revision)
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(of.At.UnixNano()))
		b.Field(3).(*array.Int64Builder).Append(rows)
		n++
	}
	if n == 0 {
		return nil
	}
	record := b.NewRecordBatch()
	defer record.Release()
	return c.appendParts("pillion", "arrivals", arrivalTypes, []part{{rows: n, columns: record.Columns()}})
}

var errNotFollowed = errors.New("the arrivals of the stream are not followed")

// LastArrival implements archive.Arrivals.
func (a *Archive) LastArrival(ctx context.Context, stream string) (mark uint64, err error) {
	err = a.settled(ctx, stream, func() error {
		return a.writer.query(ctx, "SELECT coalesce(max(revision), 0::UBIGINT) FROM pillion.arrivals WHERE stream = ?", []any{stream},
			answer.Each(func(r answer.Row) { mark = r.Uint(0) }))
	})
	return mark, err
}

// settled calls read while no transaction is open and it is known what is on disk.
func (a *Archive) settled(ctx context.Context, stream string, read func() error) error {
	if !slices.Contains(a.options.Arrivals, stream) {
		return fmt.Errorf("read arrivals of %q: %w", stream, errNotFollowed)
	}
	done, err := a.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.doubt {
		err = a.recall(ctx)
	}
	if err == nil {
		err = read()
	}
	if err != nil {
		return fmt.Errorf("read arrivals of %q: %w", stream, a.judge(err))
	}
	return nil
}

// Arrived implements archive.Arrivals.
func (a *Archive) Arrived(ctx context.Context, stream string, after uint64, most int64, rows func(arrow.RecordBatch) error) (archive.Arrived, error) {
	passed := archive.Arrived{Mark: after}
	var stored, read int64
	var first, last int64 // times of arrival
	err := a.settled(ctx, stream, func() error {
		err := a.writer.query(ctx, "SELECT revision, epoch_ns(arrived), rows FROM pillion.arrivals WHERE stream = ? AND revision > ? ORDER BY revision",
			[]any{stream, after}, answer.Each(func(r answer.Row) {
				if stored >= most && r.Uint(0) != passed.Mark {
					passed.More = true
					return
				}
				at := r.Int(1)
				if stored == 0 {
					first, last = at, at
				}
				first, last = min(first, at), max(last, at)
				passed.Mark = r.Uint(0)
				stored += r.Int(2)
			}))
		if err != nil {
			return err
		}
		err = a.writer.query(ctx, "SELECT count(*) FROM pillion.arrivals WHERE stream = ? AND revision < ?", []any{stream, after},
			answer.Each(func(r answer.Row) { read = r.Int(0) }))
		if err != nil || read < arrivalsMost {
			return err
		}
		return a.writer.exec(ctx, "DELETE FROM pillion.arrivals WHERE stream = ? AND revision < ?", stream, after)
	})
	if err != nil || stored == 0 {
		return passed, err
	}
	s, err := a.known(stream)
	if err != nil {
		return passed, err
	}
	condition := "arrived >= make_timestamp_ns(?) AND arrived <= make_timestamp_ns(?) AND arrived IN " +
		"(SELECT arrived FROM pillion.arrivals WHERE stream = ? AND revision > ? AND revision <= ?)"
	err = a.rowsOf(ctx, s, nil, condition, []any{first, last, stream, after, passed.Mark}, func(r arrow.RecordBatch) error {
		passed.Rows += r.NumRows()
		return rows(r)
	})
	passed.Removed = stored - passed.Rows
	return passed, err
}

var _ archive.Arrivals = (*Archive)(nil)
