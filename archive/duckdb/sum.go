package duckdb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// distributions of a row; package flows takes those of which measured is true.
var distributions = [...]string{"delay", "ipdv"}

func measured(of string) string {
	return fmt.Sprintf("(%[1]s_count BETWEEN 1 AND %[2]d AND %[1]s_min_ns <= %[1]s_max_ns AND %[1]s_mean_ns IS NOT NULL)", of, int64(flows.CountMax))
}

// clockError is that of both clocks of a row.
const clockError = `CASE WHEN clock_error_ns >= 0 AND source_clock_error_ns >= 0 THEN
	least(clock_error_ns::HUGEINT + source_clock_error_ns, 9223372036854775807)::BIGINT END`

// sums are the SQL of what rows add up to, without histograms, as answer.Row reads it.
var sums = func() string {
	var list []string
	for _, column := range flows.CountNames {
		list = append(list, fmt.Sprintf("least(coalesce(sum(%s), 0), 18446744073709551615)::UBIGINT", column))
	}
	for _, of := range distributions {
		list = append(list, fmt.Sprintf(`least(coalesce(sum(%[1]s_count) FILTER (%[2]s), 0), 18446744073709551615)::UBIGINT,
			min(%[1]s_min_ns) FILTER (%[2]s), max(%[1]s_max_ns) FILTER (%[2]s),
			sum(%[1]s_mean_ns::HUGEINT * %[1]s_count) FILTER (%[2]s)`, of, measured(of)))
	}
	// A row whose clock error is unknown makes that of the sum unknown.
	list = append(list, fmt.Sprintf(`CASE WHEN count(*) FILTER (%[1]s) = count(%[2]s) FILTER (%[1]s) THEN max(%[2]s) FILTER (%[1]s) END`,
		measured("delay"), clockError), "count(*)::BIGINT")
	return strings.Join(list, ", ")
}()

// histograms are the SQL of a distribution's histograms by key: bounds, counts and
// offsets, ordered by key. from is the FROM and WHERE of the rows. With every above 1, one in
// so many rows is read, always the same ones, and at least one for each key; the
// arguments of from are then bound twice.
func histograms(of, key, from string, every int64) string {
	offsets := of + "_offsets_ns"
	if of == "ipdv" {
		offsets = "NULL::UBIGINT[]"
	}
	where := fmt.Sprintf("%[1]s AND len(%[2]s_bounds_ns) = len(%[2]s_counts) AND (%[3]s IS NULL OR len(%[3]s) = len(%[2]s_counts))", measured(of), of, offsets)
	if every > 1 {
		where += fmt.Sprintf(" AND (hash(time, src, dst, sport, dport) %% %d = 0 OR rowid IN (SELECT min(rowid) %s AND %s GROUP BY %s))", every, from, where, key)
	}
	return fmt.Sprintf(`SELECT key, bound, least(sum(n), 18446744073709551615)::UBIGINT,
			CASE WHEN count(o) = count(*) THEN try_cast(sum(o) AS UBIGINT) END FROM (
		SELECT %[1]s AS key, unnest(%[2]s_bounds_ns) AS bound, unnest(%[2]s_counts) AS n, unnest(%[3]s) AS o %[4]s AND %[5]s)
		WHERE bound IS NOT NULL AND n > 0 GROUP BY key, bound ORDER BY key, bound`, key, of, offsets, from, where)
}

// askHistograms reads the histograms of both distributions of the sums that keys lead to;
// nil: to none.
func (c *connection) askHistograms(ctx context.Context, key, from string, arguments []any, every int64, sum func(key int64) *flows.Sum) error {
	if every > 1 {
		arguments = slices.Concat(arguments, arguments)
	}
	for i, of := range distributions {
		err := c.query(ctx, histograms(of, key, from, every), arguments, func(r arrow.RecordBatch) error {
			answer.Buckets(r, 1, func(row int) *histogram.Histogram {
				if to := sum(answer.RowOf(r, row).Int(0)); to != nil {
					return &[...]*flows.Distribution{&to.Delay, &to.IPDV}[i].Histogram
				}
				return nil
			})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
