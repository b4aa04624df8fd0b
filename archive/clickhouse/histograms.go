package clickhouse

import (
	"context"
	"strconv"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// histogramReader adds the histograms of one distribution to sums. Those of rows of flows are
// added up by ClickHouse, and those of roll-ups, which have many buckets, here: ClickHouse takes
// some 80 ns for a bucket.
type histogramReader struct {
	a *Archive
	// of is the index of the distribution.
	of, keys int
	// turn protects the sums' histograms of this distribution.
	turn sync.Mutex
	// sum returns that of a row, or nil.
	sum func(answer.Row) *flows.Sum
}

// readHistograms reads the histograms of both distributions at once, of the sums that keys lead
// to; nil: to none. sum returns that of a row; it is called by one goroutine at a time.
func (a *Archive) readHistograms(ctx context.Context, s source, keys []expression, every int64, sum func(answer.Row) *flows.Sum) error {
	var turn sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for i, of := range distributions {
		h := &histogramReader{a: a, of: i, keys: len(keys), sum: func(r answer.Row) *flows.Sum {
			turn.Lock()
			defer turn.Unlock()
			return sum(r)
		}}
		buckets, packed := s.measuring(of, keys, every).histograms(of, keys)
		if buckets != "" {
			group.Go(func() error { return a.read(ctx, buckets, nil, h.readBuckets) })
		}
		if packed != "" {
			group.Go(func() error { return h.readPacked(ctx, packed) })
		}
	}
	return group.Wait()
}

// find is the histogram of a row's sum, or nil.
func (h *histogramReader) find(row answer.Row) *histogram.Histogram {
	if to := h.sum(row); to != nil {
		return &[...]*flows.Distribution{&to.Delay, &to.IPDV}[h.of].Histogram
	}
	return nil
}

func (h *histogramReader) readBuckets(r arrow.RecordBatch) error {
	h.turn.Lock()
	defer h.turn.Unlock()
	answer.Buckets(r, h.keys, func(row int) *histogram.Histogram { return h.find(answer.RowOf(r, row)) })
	return nil
}

// packedGroup is the sum of the histograms of a key, which row has.
type packedGroup struct {
	packedSum
	row answer.Row
}

// readPacked adds up histograms by their keys, before it is known what sums these lead to.
func (h *histogramReader) readPacked(ctx context.Context, sql string) error {
	groups := map[string]*packedGroup{}
	defer func() {
		for _, g := range groups {
			g.row.Release()
		}
	}()
	var one packedHistogram
	err := h.a.read(ctx, sql, nil, func(r arrow.RecordBatch) error {
		packed := r.Column(h.keys).(*array.String)
		for i := range int(r.NumRows()) {
			key := keyText(r, h.keys, i)
			group := groups[key]
			if group == nil {
				group = &packedGroup{row: answer.RowOf(r, i)}
				group.row.Retain()
				groups[key] = group
			}
			if err := one.unpack(packed.Value(i)); err != nil {
				return err
			}
			group.add(&one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.turn.Lock()
	defer h.turn.Unlock()
	for _, g := range groups {
		if to := h.find(g.row); to != nil {
			g.addTo(to)
		}
	}
	return nil
}

// keyText is a text for the first columns of a row, another one for each key.
func keyText(r arrow.RecordBatch, columns, row int) string {
	if columns == 1 {
		return r.Column(0).ValueStr(row)
	}
	text := ""
	for i := range columns {
		text += strconv.Quote(r.Column(i).ValueStr(row))
	}
	return text
}
