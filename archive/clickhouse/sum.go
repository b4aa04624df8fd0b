package clickhouse

import (
	"fmt"
	"slices"
	"strings"

	"pillion.dev/measure/flows"
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
	return fmt.Sprintf("if(sum(bitShiftRight(%[1]s, 32)) + bitShiftRight(sum(bitAnd(%[1]s, 4294967295)), 32) >= 4294967296, 18446744073709551615, bitShiftLeft(sum(bitShiftRight(%[1]s, 32)), 32) + sum(bitAnd(%[1]s, 4294967295)))", value)
}

// fits is 1 if the sum of unsigned integers is one.
func fits(value string) string {
	return fmt.Sprintf("(sum(bitShiftRight(%[1]s, 32)) + bitShiftRight(sum(bitAnd(%[1]s, 4294967295)), 32) < 4294967296)", value)
}

// total is the sum of all values of a row's distribution, which needs 104 bits.
func total(count, mean, measured string) string {
	return fmt.Sprintf("toDecimal128(if(%[3]s, toInt64(ifNull(%[2]s, 0)), toInt64(0)), 0) * toDecimal128(if(%[3]s, toUInt64(ifNull(%[1]s, 0)), toUInt64(0)), 0)", count, mean, measured)
}

// clockError is that of both clocks of a row, and clockKnown 1 if both are known.
const (
	clockKnown = "(ifNull(clock_error_ns >= 0, 0) AND ifNull(source_clock_error_ns >= 0, 0))"
	clockError = "toInt64(least(toUInt64(greatest(toInt64(0), toInt64(ifNull(clock_error_ns, 0)))) + toUInt64(greatest(toInt64(0), toInt64(ifNull(source_clock_error_ns, 0)))), toUInt64(9223372036854775807)))"
)

// sums are the SQL of what rows add up to, without histograms, as answer.Row reads it.
func (r representation) sums() string {
	var list []string
	for _, name := range sumNames {
		switch {
		case slices.Contains(flows.CountNames[:], name):
			list = append(list, saturated(r.of(name)))
		case name == parts:
			list = append(list, "toInt64("+r.sum(name)+")")
		default:
			list = append(list, r.sum(name))
		}
	}
	return strings.Join(list, ", ")
}

// bucketsSQL is the SQL of the buckets of histograms by named keys: the keys, bound, count and
// offsets, ordered. from is the FROM of a subquery with the keys and the histograms' bounds and
// counts, named h1 and h2, and with offsets their sums, and how many are unknown, h3 and h4.
func bucketsSQL(keys []string, offsets bool, from string) string {
	arrays, sum := "h1 AS bound, h2 AS c", "CAST(NULL AS Nullable(UInt64))"
	if offsets {
		arrays, sum = arrays+", h3 AS o, h4 AS u", fmt.Sprintf("if(sum(u) = 0 AND %s, sum(o), NULL)", fits("o"))
	}
	return fmt.Sprintf("SELECT %[1]s, bound, %[2]s AS n, %[3]s AS offsets %[4]s ARRAY JOIN %[5]s WHERE c > 0 GROUP BY %[1]s, bound ORDER BY %[1]s, bound",
		strings.Join(keys, ", "), saturated("c"), sum, from, arrays)
}
