// Package answer is the half of answering the questions of package archive that does not
// depend on a database: it checks questions, elects the sessions whose rows count, chooses
// windows, and builds answers from the rows of results.
//
// In the flow it stands between package query, which has the SQL, and its callers.
package answer

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// Row is one row of a result. Its values, by column, have the type that the statement
// gives them; nulls are undefined.
type Row struct {
	arrow.RecordBatch
	At int
}

// RowOf is row i of a record batch.
func RowOf(r arrow.RecordBatch, i int) Row { return Row{r, i} }

// Each reads a result row by row.
func Each(read func(Row)) func(arrow.RecordBatch) error {
	return func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			read(Row{r, i})
		}
		return nil
	}
}

// Int is the value of a column of int64.
func (r Row) Int(column int) int64 { return r.Column(column).(*array.Int64).Value(r.At) }

// Uint is the value of a column of uint64.
func (r Row) Uint(column int) uint64 { return r.Column(column).(*array.Uint64).Value(r.At) }

// Float is the value of a column of float64.
func (r Row) Float(column int) float64 { return r.Column(column).(*array.Float64).Value(r.At) }

// IsNull reports whether the value of a column is null.
func (r Row) IsNull(column int) bool { return r.Column(column).IsNull(r.At) }

// Text is a copy: the record's memory may belong to the database.
func (r Row) Text(column int) string {
	return strings.Clone(r.Column(column).(*array.String).Value(r.At))
}

// Total is the value of a column of decimal128; 0 for null.
func (r Row) Total(column int) (sum decimal128.Num) {
	if c := r.Column(column).(*array.Decimal128); c.IsValid(r.At) {
		sum = c.Value(r.At)
	}
	return sum
}

// Sum reads a sum without histograms and the number of its parts from the columns from at
// on: the counts of flows.Counts; of delay and of IPDV each count, least, most and total;
// the clock error; the parts, which are rows or sums of rows.
func (r Row) Sum(at int) (sum flows.Sum, parts int64) {
	for _, to := range sum.Counts.List() {
		*to = r.Uint(at)
		at++
	}
	for _, d := range []*flows.Distribution{&sum.Delay, &sum.IPDV} {
		d.Count, d.Total = r.Uint(at), r.Total(at+3)
		if !r.IsNull(at + 1) {
			d.Min, d.Max = r.Int(at+1), r.Int(at+2)
		}
		at += 4
	}
	if !r.IsNull(at) {
		sum.ClockError = flows.Bound{Ns: r.Int(at), Known: true}
	}
	return sum, r.Int(at + 1)
}

// Buckets reads buckets from the columns bound, count and offsets, the first of which is
// at; offsets are null where they are unknown. It skips rows for which of returns nil.
func Buckets(r arrow.RecordBatch, at int, of func(row int) *histogram.Histogram) {
	bounds := r.Column(at).(*array.Int64)
	counts, offsets := r.Column(at+1).(*array.Uint64), r.Column(at+2).(*array.Uint64)
	for i := range int(r.NumRows()) {
		to := of(i)
		switch {
		case to == nil:
		case offsets.IsValid(i):
			to.AddSum(bounds.Value(i), counts.Value(i), offsets.Value(i))
		default:
			to.AddBucket(bounds.Value(i), counts.Value(i))
		}
	}
}
