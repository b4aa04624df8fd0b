package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/archive/transfer"
	"pillion.dev/measure"
)

// copiedAtOnce is how many copied rows are rolled up at once: fewer than rollRows, because each may be of another
// window.
const copiedAtOnce = rollRows / 2

// Position implements transfer.Receiver: the checkpoint and the rows of later commits, after
// the inserts of this and earlier processes have ended.
func (r *receiver) Position(ctx context.Context, stream string, number int) (transfer.Position, error) {
	p := r.parts[number]
	if p.doubt {
		if err := p.fence(ctx); err != nil {
			return transfer.Position{}, fmt.Errorf("end the inserts that failed: %w", err)
		}
		p.doubt = false
	}
	if err := p.settle(ctx, stream); err != nil {
		return transfer.Position{}, err
	}
	saved, err := r.a.copyCheckpoint(ctx, p.number, stream)
	if err != nil {
		return transfer.Position{}, err
	}
	at, commit := saved.Position, saved.commit
	later := fmt.Sprintf("FROM %s WHERE _lane = %d AND _commit > %d", r.a.local(stream), p.number, saved.commit)
	arrived, rows, same := int64(0), int64(0), int64(0)
	err = p.ask(ctx, fmt.Sprintf("SELECT max(%s), toInt64(count()), max(_commit) %s", archive.ArrivalColumn, later), func(scan func(...any) error) error {
		var last uint64
		err := scan(&arrived, &rows, &last)
		commit = max(commit, last)
		return err
	})
	if err == nil && rows > 0 {
		err = p.ask(ctx, fmt.Sprintf("SELECT toInt64(count()) %s AND %s = %s", later, archive.ArrivalColumn, integer(arrived)), func(scan func(...any) error) error { return scan(&same) })
		if at.Rows == 0 || at.Arrived != arrived {
			at.Same = 0
		}
		at = transfer.Position{Arrived: arrived, Same: at.Same + same, Rows: at.Rows + rows}
	}
	if err != nil {
		return at, fmt.Errorf("read position of the copy of %q: %w", stream, err)
	}
	p.saved[stream] = saved
	p.streams[stream] = &progress{commit: commit}
	return at, nil
}

// Write implements transfer.Receiver. The rows are a commit, in the partition of the day on
// which they arrived, so that retention treats them as rows of that day.
func (r *receiver) Write(ctx context.Context, stream string, number int, rows []arrow.RecordBatch) error {
	p := r.parts[number]
	at := p.streams[stream]
	schema, err := r.a.schema(ctx, stream)
	if err != nil {
		return err
	}
	shape := r.shapes[stream]
	last := rows[len(rows)-1]
	arrived, ok := last.Column(int(last.NumCols()) - 1).(*array.Timestamp)
	if !ok || int(last.NumCols()) != len(shape.Fields) {
		return fmt.Errorf("write rows of %q: %w: it has not the columns of the stream", stream, measure.ErrBatch)
	}
	b := &block{schema: schema, lane: p.number, owner: p.owner, commit: at.commit + 1, copied: true,
		at: time.Unix(min(max(int64(arrived.Value(arrived.Len()-1))/int64(time.Second), 0), math.MaxUint32), 0)}
	n := int64(0)
	for i, record := range rows {
		// Each record is a batch, by which retention counts rows.
		key := measure.Key{Stream: stream, Sequence: b.commit<<20 + uint64(i)}
		b.batches = append(b.batches, &archive.Batch{Key: key, Oldest: key.Sequence, Schema: shape, Record: record})
		n += record.NumRows()
	}
	at.verified = false // another copy may have used the number of the commit
	if err := p.insert(ctx, b, at); err != nil {
		p.doubt = true
		return fmt.Errorf("write %d rows of %q: %w", n, stream, err)
	}
	at.commit++
	if stream != measure.Flows.Name {
		return nil
	}
	if p.unrolled += n; p.unrolled < copiedAtOnce {
		return nil
	}
	return p.roll(ctx, at.commit, b.at, minute)
}

// roll adds up rows of flows through a commit, in each level.
func (p *part) roll(ctx context.Context, through uint64, at time.Time, into ...*level) error {
	if p.a.options.RollUp < 0 {
		return nil
	}
	for _, v := range into {
		if v.from != nil {
			m := p.rolling.marks[v.from]
			through, at = m.commit, m.at
		}
		if err := p.rolling.roll(ctx, v, through, at); err != nil {
			delete(p.rolling.marks, v)
			return fmt.Errorf("roll up copied rows into %s: %w", v.shown, err)
		}
	}
	p.unrolled = 0
	return nil
}

// Finish implements transfer.Receiver.
func (r *receiver) Finish(ctx context.Context, stream string, number int) error {
	p := r.parts[number]
	at, err := r.Position(ctx, stream, number)
	if err != nil {
		return err
	}
	commit := p.streams[stream].commit
	if stream == measure.Flows.Name {
		if err := p.roll(ctx, commit, time.Unix(0, at.Arrived), levels...); err != nil {
			return err
		}
	}
	if saved := p.saved[stream]; saved.seen > 0 && saved.commit == commit {
		return nil
	}
	return r.a.writeCopyCheckpoint(ctx, p.number, stream, checkpointOfCopy{Position: at, commit: commit})
}
