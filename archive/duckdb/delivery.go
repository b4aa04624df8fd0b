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
	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

// sender identifies one sequence of batches.
type sender struct {
	agent, stream string
	epoch         uint64
}

// delivery is the state of a sender: all batches below next have arrived or never will,
// and so have the extras above it.
type delivery struct {
	next                   uint64
	extras                 map[uint64]bool
	batches, rows, missing int64
	seen                   time.Time // when the last batch arrived
}

// extrasMax limits the state of a sender that leaves gaps.
const extrasMax = 1 << 14

var errGaps = &quota.Error{Quota: "gaps", Limit: extrasMax, Unit: "batches after a gap for each sequence", Later: true,
	What: "store a batch whose predecessors have not arrived"}

func (d *delivery) clone() *delivery {
	c := *d
	c.extras = maps.Clone(d.extras)
	return &c
}

func (d *delivery) has(sequence uint64) bool { return sequence < d.next || d.extras[sequence] }

// settle closes the gaps below oldest: batches missing there will not arrive. It iterates
// over extras, not over numbers, which are not trusted.
func (d *delivery) settle(oldest uint64) {
	if oldest > d.next {
		gap := oldest - d.next
		for extra := range d.extras {
			if extra < oldest {
				delete(d.extras, extra)
				gap--
			}
		}
		d.missing += int64(gap)
		d.next = oldest
	}
	d.advance()
}

func (d *delivery) advance() {
	for d.extras[d.next] {
		delete(d.extras, d.next)
		d.next++
	}
}

// again notes a batch that had been stored.
func (a *Archive) again(key sender, d *delivery, now time.Time) {
	a.cache.Lock()
	defer a.cache.Unlock()
	d.seen = now
	a.heard(key, false, now)
}

// add records a new batch.
func (d *delivery) add(sequence, oldest uint64, rows int64) error {
	if len(d.extras) >= extrasMax && sequence != d.next {
		return errGaps
	}
	if d.extras == nil {
		d.extras = map[uint64]bool{}
	}
	d.extras[sequence] = true
	d.batches++
	d.rows += rows
	d.settle(min(oldest, sequence))
	return nil
}

var deliveryTypes = []measure.Type{
	measure.Uint64, measure.String, measure.String, measure.Uint64, measure.Uint64, measure.Uint64List,
	measure.Int64, measure.Int64, measure.Int64, measure.Int64,
}

// saveDeliveries appends the states to the log inside the running transaction.
func (c *connection) saveDeliveries(revision uint64, states map[sender]*delivery) error {
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
		b.Field(1).(*array.StringBuilder).Append(key.agent)
		b.Field(2).(*array.StringBuilder).Append(key.stream)
		b.Field(3).(*array.Uint64Builder).Append(key.epoch)
		b.Field(4).(*array.Uint64Builder).Append(d.next)
		list := b.Field(5).(*array.ListBuilder)
		list.Append(true)
		list.ValueBuilder().(*array.Uint64Builder).AppendValues(slices.Collect(maps.Keys(d.extras)), nil)
		b.Field(6).(*array.Int64Builder).Append(d.batches)
		b.Field(7).(*array.Int64Builder).Append(d.rows)
		b.Field(8).(*array.Int64Builder).Append(d.missing)
		b.Field(9).(*array.Int64Builder).Append(d.seen.UnixNano())
	}
	record := b.NewRecordBatch()
	defer record.Release()
	return c.appendParts("pillion", "delivery", deliveryTypes, []part{{rows: len(states), columns: record.Columns()}})
}

// loadDeliveries reads the log: the latest state of each sender, the latest
// revision, and how long the log is.
func (c *connection) loadDeliveries(ctx context.Context) (states map[sender]*delivery, revision uint64, logged int, err error) {
	states, latest := map[sender]*delivery{}, map[sender]uint64{}
	err = c.query(ctx, "SELECT * FROM pillion.delivery", nil, each(func(r resultRow) {
		logged++
		key := sender{r.text(1), r.text(2), r.uint(3)}
		at := r.uint(0)
		revision = max(revision, at)
		if states[key] != nil && latest[key] > at {
			return
		}
		d := &delivery{next: r.uint(4), extras: map[uint64]bool{}, batches: r.int(6), rows: r.int(7), missing: r.int(8)}
		d.seen = time.Now() // saved by an earlier version
		if !r.isNull(9) {
			d.seen = time.Unix(0, r.int(9))
		}
		extras := r.Column(5).(*array.List)
		start, end := extras.ValueOffsets(r.at)
		for k := start; k < end; k++ {
			d.extras[extras.ListValues().(*array.Uint64).Value(int(k))] = true
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
	a.cache.Lock()
	defer a.cache.Unlock()
	out := map[string]archive.Delivered{}
	for key, d := range a.deliveries {
		if key.agent == agent {
			sum := out[key.stream]
			sum.Batches += d.batches
			sum.Rows += d.rows
			sum.Missing += d.missing
			out[key.stream] = sum
		}
	}
	return out, nil
}
