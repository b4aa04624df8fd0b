package duckdb

import (
	"fmt"
	"math"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
)

// sums are the SQL of what rows add up to, in the order in which sumReader reads it.
// What no histogram tells is that of the row with most packets.
var sums = func() string {
	var list []string
	for _, column := range []string{"packets", "bytes", "expected", "lost", "duplicated", "reordered", "late"} {
		list = append(list, fmt.Sprintf("least(coalesce(sum(%s), 0), 18446744073709551615)::UBIGINT", column))
	}
	for _, of := range []string{"delay", "ipdv"} {
		// A session may leave the count out.
		weight := fmt.Sprintf("coalesce(%s_count, packets, 1)", of)
		list = append(list,
			fmt.Sprintf("least(coalesce(sum(%s_count), 0), 18446744073709551615)::UBIGINT", of),
			fmt.Sprintf("min(%s_min_ns)::DOUBLE", of),
			fmt.Sprintf("sum(%[1]s_mean_ns::DOUBLE * %[2]s::DOUBLE) / nullif(sum(%[2]s::DOUBLE) FILTER (%[1]s_mean_ns IS NOT NULL), 0)", of, weight))
		for _, quantile := range []string{"p50", "p90", "p99"} {
			list = append(list, fmt.Sprintf("arg_max(%s_%s_ns, %s)::DOUBLE", of, quantile, weight))
		}
		list = append(list, fmt.Sprintf("max(%s_max_ns)::DOUBLE", of))
	}
	list = append(list, "greatest(max(clock_error_ns::DOUBLE + source_clock_error_ns::DOUBLE), 0)",
		"count(delay_p50_ns)::BIGINT", "count(*)::BIGINT")
	for i := range list {
		list[i] += fmt.Sprintf(" AS s%d", i)
	}
	return strings.Join(list, ", ")
}()

const sumColumns = 7 + 2*7 + 3

// sumReader reads the columns of sums, which begin at a place.
type sumReader struct {
	record arrow.RecordBatch
	at     int
}

func (s *sumReader) count(i int) uint64 {
	s.at++
	return s.record.Column(s.at - 1).(*array.Uint64).Value(i)
}

func (s *sumReader) number(i int) float64 {
	s.at++
	if column := s.record.Column(s.at - 1).(*array.Float64); column.IsValid(i) {
		return column.Value(i)
	}
	return math.NaN()
}

func (s *sumReader) int(i int) int64 {
	s.at++
	return s.record.Column(s.at - 1).(*array.Int64).Value(i)
}

// window reads one row: the window, how many rows had quantiles of their own, and
// how many there were.
func (s *sumReader) window(i int) (w archive.Window, quantiles, rows int64) {
	for _, to := range []*uint64{&w.Packets, &w.Bytes, &w.Expected, &w.Lost, &w.Duplicated, &w.Reordered, &w.Late} {
		*to = s.count(i)
	}
	for _, d := range []*archive.Distribution{&w.Delay, &w.IPDV} {
		d.Count = s.count(i)
		for _, to := range []*float64{&d.Min, &d.Mean, &d.P50, &d.P90, &d.P99, &d.Max} {
			*to = s.number(i)
		}
	}
	w.ClockError = s.number(i)
	return w, s.int(i), s.int(i)
}
