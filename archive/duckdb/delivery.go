package duckdb

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/archive/ledger"
	"pillion.dev/measure"
)

var deliveryTypes = []measure.Type{
	measure.Uint64, measure.String, measure.String, measure.Uint64, measure.Uint64, measure.Uint64List,
	measure.Int64, measure.Int64, measure.Int64, measure.Int64,
}

// saveDeliveries appends the states to the log inside the running transaction.
func (c *connection) saveDeliveries(revision uint64, states map[ledger.Sender]*ledger.Delivery) error {
	if len(states) == 0 {
		return nil
	}
	fields := make([]arrow.Field, len(deliveryTypes))
	for i, t := range deliveryTypes {
		fields[i] = arrow.Field{Name: "c", Type: measure.ArrowType(t)}
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for key, d := range states {
		b.Field(0).(*array.Uint64Builder).Append(revision)
		b.Field(1).(*array.StringBuilder).Append(key.Agent)
		b.Field(2).(*array.StringBuilder).Append(key.Stream)
		b.Field(3).(*array.Uint64Builder).Append(key.Epoch)
		b.Field(4).(*array.Uint64Builder).Append(d.Next)
		list := b.Field(5).(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Uint64Builder).AppendValues(slices.Collect(maps.Keys(d.Extras)), nil)
		b.Field(6).(*array.Int64Builder).Append(d.Batches)
		b.Field(7).(*array.Int64Builder).Append(d.Rows)
		b.Field(8).(*array.Int64Builder).Append(d.Missing)
		b.Field(9).(*array.Int64Builder).Append(d.Seen.UnixNano())
	}
	record := b.NewRecordBatch()
	defer record.Release()
	return c.appendParts("pillion", "delivery", deliveryTypes, []part{{rows: len(states), columns: record.Columns()}})
}

// loadDeliveries reads the log: the latest state of each sender, the latest
// revision, and how long the log is.
func (c *connection) loadDeliveries(ctx context.Context) (states map[ledger.Sender]*ledger.Delivery, revision uint64, logged int, err error) {
	states, latest := map[ledger.Sender]*ledger.Delivery{}, map[ledger.Sender]uint64{}
	err = c.query(ctx, "SELECT * FROM pillion.delivery", nil, answer.Each(func(r answer.Row) {
		logged++
		key := ledger.Sender{Agent: r.Text(1), Stream: r.Text(2), Epoch: r.Uint(3)}
		at := r.Uint(0)
		revision = max(revision, at)
		if states[key] != nil && latest[key] > at {
			return
		}
		d := &ledger.Delivery{Next: r.Uint(4), Extras: map[uint64]bool{}, Batches: r.Int(6), Rows: r.Int(7), Missing: r.Int(8), Seen: time.Unix(0, r.Int(9))}
		extras := r.Column(5).(*array.List)
		start, end := extras.ValueOffsets(r.At)
		for k := start; k < end; k++ {
			d.Extras[extras.ListValues().(*array.Uint64).Value(int(k))] = true
		}
		states[key], latest[key] = d, at
	}))
	return states, revision, logged, err
}

// Delivered returns the sums for an agent over all its epochs.
func (a *Archive) Delivered(ctx context.Context, agent string) (map[string]archive.Delivered, error) {
	done, err := a.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return a.book.Delivered(agent), nil
}
