package clickhouse

import (
	"context"
	"strconv"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive/answer"
	"pillion.dev/measure/histogram"
)

// packedGroup is the sum of the histograms of a key, which row has.
type packedGroup struct {
	packedSum
	row answer.Row
}

// ReadPacked implements query.RollUps. Histograms of roll-ups, which have many buckets, are added up here:
// ClickHouse takes some 80 ns for a bucket. Their keys are known before it is known what sums these lead to.
func (e engine) ReadPacked(ctx context.Context, sql string, keys int, turn sync.Locker, find func(answer.Row) *histogram.Histogram) error {
	groups := map[string]*packedGroup{}
	defer func() {
		for _, g := range groups {
			g.row.Release()
		}
	}()
	var one packedHistogram
	err := e.read(ctx, sql, nil, func(r arrow.RecordBatch) error {
		packed := r.Column(keys).(*array.String)
		for i := range int(r.NumRows()) {
			key := keyText(r, keys, i)
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
	turn.Lock()
	defer turn.Unlock()
	for _, g := range groups {
		if to := find(g.row); to != nil {
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
