package clickhouse

import (
	"context"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
)

// distributions of a row; package flows takes those of which measured is true.
var distributions = [...]string{"delay", "ipdv"}

func measured(of string) string { return measuredBy(of+"_count", of) }

// measuredBy is 1 for rows with a distribution whose count is a column, else 0.
func measuredBy(count, of string) string {
	return fmt.Sprintf("(ifNull(%[1]s, 0) BETWEEN 1 AND %[3]d AND ifNull(%[2]s_min_ns <= %[2]s_max_ns, 0) AND isNotNull(%[2]s_mean_ns))", count, of, int64(flows.CountMax))
}

// saturated is the sum of unsigned integers, at most the largest: ClickHouse would wrap. The
// halves of 32 bits are summed apart, which is exact for 2^32 rows.
func saturated(value string) string {
	value = "toUInt64(ifNull(" + value + ", 0))"
	return fmt.Sprintf("if(sum(bitShiftRight(%[1]s, 32)) + bitShiftRight(sum(bitAnd(%[1]s, 4294967295)), 32) >= 4294967296, 18446744073709551615, sum(%[1]s))", value)
}

// fits is 1 if the sum of unsigned integers is one.
func fits(value string) string {
	return fmt.Sprintf("(sum(bitShiftRight(%[1]s, 32)) + bitShiftRight(sum(bitAnd(%[1]s, 4294967295)), 32) < 4294967296)", value)
}

// total is the sum of all values of a distribution, which needs 104 bits for a row.
func total(count, mean, measured string) string {
	return fmt.Sprintf("sum(toDecimal128(if(%[3]s, toInt64(ifNull(%[2]s, 0)), toInt64(0)), 0) * toDecimal128(if(%[3]s, toUInt64(ifNull(%[1]s, 0)), toUInt64(0)), 0))", count, mean, measured)
}

// clockError is that of both clocks of a row, and clockKnown 1 if both are known.
const (
	clockKnown = "(ifNull(clock_error_ns >= 0, 0) AND ifNull(source_clock_error_ns >= 0, 0))"
	clockError = "toInt64(least(toUInt64(greatest(toInt64(0), toInt64(ifNull(clock_error_ns, 0)))) + toUInt64(greatest(toInt64(0), toInt64(ifNull(source_clock_error_ns, 0)))), toUInt64(9223372036854775807)))"
)

// sums are the SQL of what rows add up to, without histograms, as answer.Row reads it.
var sums = func() string {
	var list []string
	for _, column := range flows.CountNames {
		list = append(list, saturated(column))
	}
	for _, of := range distributions {
		list = append(list,
			saturated(fmt.Sprintf("if(%s, %s_count, 0)", measured(of), of)),
			fmt.Sprintf("minIf(%s_min_ns, %s)", of, measured(of)), fmt.Sprintf("maxIf(%s_max_ns, %s)", of, measured(of)),
			total(of+"_count", of+"_mean_ns", measured(of)))
	}
	// A row whose clock error is unknown makes that of the sum unknown.
	delay := measured("delay")
	list = append(list, fmt.Sprintf("if(countIf(%[1]s) > 0 AND countIf(%[1]s) = countIf(%[1]s AND %[2]s), maxIf(%[3]s, %[1]s), NULL)", delay, clockKnown, clockError), "toInt64(count())")
	return strings.Join(list, ", ")
}()

// buckets are the SQL of the buckets of histograms by keys: the keys, bound, count and
// offsets, ordered. from is the FROM and WHERE of the rows. keys are expressions with names. With every
// above 1, one in so many rows is read, always the same ones, and at least one for each key.
type buckets struct {
	of, measured string
	// offsets is the column that has them; empty if there is none.
	offsets string
	keys    []string
	from    string
	every   int64
}

// rowHash selects rows: always the same ones.
const rowHash = "cityHash64(time, ifNull(src, ''), ifNull(dst, ''), toInt64(ifNull(sport, 0)), toInt64(ifNull(dport, 0)))"

func (b *buckets) sql() string {
	names := make([]string, len(b.keys))
	for i := range names {
		names[i] = fmt.Sprintf("b%d", i)
	}
	where := fmt.Sprintf("%[1]s AND length(%[2]s_bounds_ns) = length(%[2]s_counts)", b.measured, b.of)
	offsets, known := "arrayMap(x -> toUInt64(0), "+b.of+"_counts)", "0"
	if b.offsets != "" {
		null := nullPrefix + b.offsets
		where += fmt.Sprintf(" AND (%s = 1 OR length(%s) = length(%s_counts))", null, b.offsets, b.of)
		offsets, known = fmt.Sprintf("if(%s = 1, %s, %s)", null, offsets, b.offsets), null+" = 0"
	}
	if b.every > 1 {
		keys := strings.Join(b.keys, ", ")
		where += fmt.Sprintf(" AND (%[1]s %% %[2]d = 0 OR (%[3]s, %[1]s) GLOBAL IN (SELECT %[4]s, min(%[1]s) %[5]s AND %[6]s GROUP BY %[3]s))",
			rowHash, b.every, keys, keys, b.from, where)
	}
	var inner []string
	for i, key := range b.keys {
		inner = append(inner, key+" AS "+names[i])
	}
	list := strings.Join(names, ", ")
	return fmt.Sprintf(`SELECT %[1]s, bound, %[2]s AS n, if(count() = countIf(known) AND %[3]s, sum(o), NULL) AS offsets FROM (
		SELECT %[4]s, %[5]s_bounds_ns AS bounds, %[5]s_counts AS counts, %[6]s AS all_offsets, %[7]s AS known %[8]s AND %[9]s)
		ARRAY JOIN bounds AS bound, counts AS c, all_offsets AS o WHERE c > 0 GROUP BY %[1]s, bound ORDER BY %[1]s, bound`,
		list, saturated("c"), fits("o"), strings.Join(inner, ", "), b.of, offsets, known, b.from, where)
}

// readHistograms reads the histograms of both distributions of the sums that keys lead to;
// nil: to none. row returns the sum of a row.
func (a *Archive) readHistograms(ctx context.Context, keys []string, from string, every int64, sum func(answer.Row) *flows.Sum) error {
	for i, of := range distributions {
		b := buckets{of: of, measured: measured(of), keys: keys, from: from, every: every}
		if of == "delay" {
			b.offsets = "delay_offsets_ns"
		}
		err := a.read(ctx, b.sql(), nil, func(r arrow.RecordBatch) error {
			answer.Buckets(r, len(keys), func(row int) *histogram.Histogram {
				if to := sum(answer.RowOf(r, row)); to != nil {
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
