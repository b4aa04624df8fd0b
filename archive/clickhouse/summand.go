package clickhouse

import (
	"fmt"
	"strings"

	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
)

// summand is one of the values that a row of flows, or of a roll-up, adds to a sum. Roll-ups
// have a column for each.
type summand struct {
	name string
	// kind is the type of the column.
	kind string
	// raw is the SQL of the value in a row of flows.
	raw string
	// merge is the SQL of the sum of values, {name} standing for a value; empty for keys, by
	// which sums are told apart, and for histograms. rollSum.merge does the same.
	merge string
}

// summands of all rows, keys first. time is the middle of a row of flows, and the start of a
// roll-up's window.
var summands = func() []summand {
	list := []summand{
		{"agent", "LowCardinality(String)", "toString(agent)", ""},
		{"source", "LowCardinality(String)", text("source"), ""}, {"session", "LowCardinality(String)", text("session"), ""},
		{"src", "LowCardinality(String)", text("src"), ""}, {"dst", "LowCardinality(String)", text("dst"), ""}, {"proto", "LowCardinality(String)", text("proto"), ""},
		{"sport", "Int64", port("sport"), ""}, {"dport", "Int64", port("dport"), ""},
		{"unit", "Int64", fmt.Sprintf("intDiv(intDiv(%s * 9, 10) + %d, %d)", interval, int64(answer.Unit-1), int64(answer.Unit)), ""},
		{"time", "Int64", middle, ""},
		{"begun", "Int64", "(time - " + interval + ")", "min({begun})"}, {"ended", "Int64", "time", "max({ended})"},
		{"rows", "UInt64", "toUInt64(1)", "sum({rows})"},
	}
	for _, name := range flows.CountNames {
		list = append(list, summand{name, "Nullable(UInt64)", "toUInt64(" + name + ")", counted("{" + name + "}")})
	}
	list = append(list, summand{"clock_error_ns", "Nullable(Int64)", fmt.Sprintf("if(%s AND %s, %s, NULL)", measured("delay"), clockKnown, clockError),
		// A row whose clock error is unknown makes that of the sum unknown.
		"if(countIf({delay_count} > 0) > 0 AND countIf({delay_count} > 0) = countIf({delay_count} > 0 AND isNotNull({clock_error_ns})), max({clock_error_ns}), NULL)"})
	for _, of := range distributions {
		list = append(list, distributed(of)...)
	}
	return list
}()

// distributed are the summands of a distribution. Histograms have for each bucket the number
// of values, the sum of their offsets, and how many rows do not know theirs.
func distributed(of string) []summand {
	is := measured(of)
	n := "{" + of + "_count} > 0"
	offsets := ""
	if of == "delay" {
		offsets = "delay_offsets_ns"
	}
	h := histogramOf(of, is, offsets)
	return []summand{
		{of + "_count", "UInt64", fmt.Sprintf("if(%s, toUInt64(ifNull(%s_count, 0)), toUInt64(0))", is, of), saturated("{" + of + "_count}")},
		{of + "_min_ns", "Int64", fmt.Sprintf("toInt64(ifNull(%s_min_ns, 0))", of), fmt.Sprintf("minIf({%s_min_ns}, %s)", of, n)},
		{of + "_max_ns", "Int64", fmt.Sprintf("toInt64(ifNull(%s_max_ns, 0))", of), fmt.Sprintf("maxIf({%s_max_ns}, %s)", of, n)},
		{of + "_total_ns", "Decimal(38, 0)", total(of+"_count", of+"_mean_ns", is), "sum({" + of + "_total_ns})"},
		{of + "_bounds_ns", "Array(Int64)", h.bounds, ""},
		{of + "_counts", "Array(UInt64)", h.counts, ""},
		{of + "_offsets_ns", "Array(UInt64)", h.offsets, ""},
		{of + "_unknown", "Array(UInt64)", h.unknown, ""},
	}
}

// offsetMost is the largest sum of offsets that is merged: larger ones, of years, count as
// unknown, so that no sum wraps.
const offsetMost = uint64(1) << 56

// histogramColumns is the SQL of a histogram: arrays of the same length.
type histogramColumns struct{ bounds, counts, offsets, unknown string }

// list names the columns.
func (h *histogramColumns) list() string {
	return h.bounds + " AS h1, " + h.counts + " AS h2, " + h.offsets + " AS h3, " + h.unknown + " AS h4"
}

// histogramOf is that of the histogram of a row, which is empty unless measured. offsets is
// the column of offsets; empty if there is none.
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

// representation is how a table or a subquery has the summands.
type representation struct {
	// raw: it has rows of flows.
	raw bool
	// prefix of the names of its columns.
	prefix string
}

var (
	rawRows    = representation{raw: true}
	rolledRows = representation{}
	// mergedRows are those of subqueries.
	mergedRows = representation{prefix: "s_"}
)

// of is the SQL of a summand's value.
func (r representation) of(name string) string {
	switch {
	case name == parts && r.prefix == "":
		return "toUInt64(1)"
	case r.raw:
		return find(name).raw
	}
	return r.prefix + name
}

// parts is the number of rows, of flows or of roll-ups, of a sum. No table has the column.
const parts = "parts"

// sum is the SQL of the sum of a summand's values.
func (r representation) sum(name string) string {
	if name == parts {
		return "sum(" + r.of(parts) + ")"
	}
	return r.expand(find(name).merge)
}

// expand replaces names in braces by the SQL of their values.
func (r representation) expand(template string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString(r.of(name))
		template = after
	}
}

func find(name string) *summand {
	for i := range summands {
		if summands[i].name == name {
			return &summands[i]
		}
	}
	panic("no summand " + name)
}

// sumNames are the summands of an answer.Sum.
var sumNames = func() []string {
	list := append([]string{}, flows.CountNames[:]...)
	for _, of := range distributions {
		list = append(list, of+"_count", of+"_min_ns", of+"_max_ns", of+"_total_ns")
	}
	return append(list, "clock_error_ns", parts)
}()
