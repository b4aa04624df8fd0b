package clickhouse

import (
	"fmt"

	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
	"pillion.dev/measure/flows"
)

// summands of all rows, keys first. Roll-ups have a column for each, and rollSum.merge does what the templates do.
// time is the middle of a row of flows, and the start of a roll-up's window.
var summands = func() []query.Summand {
	interval := fmt.Sprintf("greatest(toInt64(0), least(toInt64(ifNull(interval_ns, 0)), toInt64(%d)))", int64(flows.IntervalMax))
	list := []query.Summand{
		summand("agent", "LowCardinality(String)", "toString(agent)", ""),
		summand("source", "LowCardinality(String)", text("source"), ""), summand("session", "LowCardinality(String)", text("session"), ""),
		summand("src", "LowCardinality(String)", text("src"), ""), summand("dst", "LowCardinality(String)", text("dst"), ""), summand("proto", "LowCardinality(String)", text("proto"), ""),
		summand("sport", "Int64", port("sport"), ""), summand("dport", "Int64", port("dport"), ""),
		summand("unit", "Int64", fmt.Sprintf("intDiv(intDiv(%s * 9, 10) + %d, %d)", interval, int64(answer.Unit-1), int64(answer.Unit)), ""),
		summand("time", "Int64", "(time - intDiv("+interval+", 2))", ""),
		summand("begun", "Int64", "(time - "+interval+")", "min({begun})"), summand("ended", "Int64", "time", "max({ended})"),
		summand("rows", "UInt64", "toUInt64(1)", "sum({rows})"),
	}
	for _, name := range flows.CountNames {
		list = append(list, summand(name, "Nullable(UInt64)", "toUInt64("+name+")", counted("{"+name+"}")))
	}
	list = append(list, summand("clock_error_ns", "Nullable(Int64)", fmt.Sprintf("if(%s AND %s, %s, NULL)", measured("delay_count", "delay"), clockKnown, clockError),
		// A row whose clock error is unknown makes the clock error of the sum unknown.
		"if(countIf({delay_count} > 0) > 0 AND countIf({delay_count} > 0) = countIf({delay_count} > 0 AND isNotNull({clock_error_ns})), max({clock_error_ns}), NULL)"))
	for _, of := range query.Distributions {
		list = append(list, distributed(of)...)
	}
	return list
}()

func summand(name, kind, value, merge string) query.Summand {
	return query.Summand{Name: name, Kind: kind, Value: value, Merge: merge}
}

// distributed are the summands of a distribution. Histograms have for each bucket the number
// of values, the sum of their offsets, and how many rows do not know theirs.
func distributed(of string) []query.Summand {
	is := measured(of+"_count", of)
	n := "{" + of + "_count} > 0"
	offsets := ""
	if of == "delay" {
		offsets = "delay_offsets_ns"
	}
	h := histogramOf(of, is, offsets)
	return []query.Summand{
		summand(of+"_count", "UInt64", fmt.Sprintf("if(%s, toUInt64(ifNull(%s_count, 0)), toUInt64(0))", is, of), saturated("{"+of+"_count}")),
		summand(of+"_min_ns", "Int64", fmt.Sprintf("toInt64(ifNull(%s_min_ns, 0))", of), fmt.Sprintf("minIf({%s_min_ns}, %s)", of, n)),
		summand(of+"_max_ns", "Int64", fmt.Sprintf("toInt64(ifNull(%s_max_ns, 0))", of), fmt.Sprintf("maxIf({%s_max_ns}, %s)", of, n)),
		summand(of+"_total_ns", "Decimal(38, 0)", fmt.Sprintf(totalOf, of+"_count", of+"_mean_ns", is), "sum({"+of+"_total_ns})"),
		summand(of+"_bounds_ns", "Array(Int64)", h.bounds, ""),
		summand(of+"_counts", "Array(UInt64)", h.counts, ""),
		summand(of+"_offsets_ns", "Array(UInt64)", h.offsets, ""),
		summand(of+"_unknown", "Array(UInt64)", h.unknown, ""),
	}
}

// offsetMost is the largest sum of offsets that is merged: larger ones, of years, count as
// unknown, so that no sum wraps.
const offsetMost = uint64(1) << 56

// histogramColumns is the SQL of a histogram: arrays of the same length.
type histogramColumns struct{ bounds, counts, offsets, unknown string }

// histogramOf is the SQL of the histogram of a row, which is empty unless measured. offsets is the column of
// offsets; empty if there is none.
func histogramOf(of, measured, offsets string) histogramColumns {
	bounds, counts := of+"_bounds_ns", of+"_counts"
	known, null := measured+fmt.Sprintf(" AND length(%s) = length(%s)", bounds, counts), "1"
	if offsets != "" {
		null = nullPrefix + offsets
		known += fmt.Sprintf(" AND (%s = 1 OR length(%s) = length(%s))", null, offsets, counts)
	}
	unsigned := "if(" + known + ", %s, emptyArrayUInt64())"
	h := histogramColumns{
		bounds: fmt.Sprintf("if(%s, %s, emptyArrayInt64())", known, bounds), counts: fmt.Sprintf(unsigned, counts),
		offsets: fmt.Sprintf(unsigned, "arrayMap(x -> toUInt64(0), "+counts+")"), unknown: fmt.Sprintf(unsigned, "arrayMap(x -> toUInt64("+null+"), "+counts+")"),
	}
	if offsets != "" {
		h.offsets = fmt.Sprintf(unsigned, fmt.Sprintf("if(%s = 1, arrayMap(x -> toUInt64(0), %s), %s)", null, counts, offsets))
	}
	return h
}

// clockError is the sum of the errors of both clocks of a row, and clockKnown is 1 if both are known.
const (
	clockKnown = "(ifNull(clock_error_ns >= 0, 0) AND ifNull(source_clock_error_ns >= 0, 0))"
	clockError = "toInt64(least(toUInt64(greatest(toInt64(0), toInt64(ifNull(clock_error_ns, 0)))) + toUInt64(greatest(toInt64(0), toInt64(ifNull(source_clock_error_ns, 0)))), toUInt64(9223372036854775807)))"
)

// totalOf is the sum of all values of a row's distribution, by count, mean and measured. It needs 104 bits.
const totalOf = "toDecimal128(if(%[3]s, toInt64(ifNull(%[2]s, 0)), toInt64(0)), 0) * toDecimal128(if(%[3]s, toUInt64(ifNull(%[1]s, 0)), toUInt64(0)), 0)"

func text(column string) string { return "toString(ifNull(" + column + ", ''))" }

// port reads a column whose type an agent can have widened.
func port(column string) string { return "toInt64(ifNull(" + column + ", 0))" }
