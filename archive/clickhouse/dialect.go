package clickhouse

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive/query"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// hour is the first column of every table's primary key.
const hour = "intDiv(time, 3600000000000)"

// sourceText is the column of the primary key of flows and packets.
const sourceText = "ifNull(source, '')"

// dialect is the SQL of ClickHouse, from version 18.16 on.
var dialect = &query.Dialect{
	Concurrent: -1,
	Quoted:     quoted, Literal: literal,
	Int:     integer,
	Uint:    func(n uint64) string { return "toUInt64(" + strconv.FormatUint(n, 10) + ")" },
	Float:   func(f float64) string { return "toFloat64(" + literal(strconv.FormatFloat(f, 'g', -1, 64)) + ")" },
	Instant: func(t time.Time) string { return integer(t.UnixNano()) },
	Since:   since, Until: until,
	ToInt: "toInt64(%s)", ToUint: "toUInt64(%s)", ToFloat: "toFloat64(%s)", ToText: "toString(%s)",
	Number: "toInt64(ifNull(%s, 0))", Div: "intDiv(%s, %d)",
	TimeNs: "time", Source: sourceText,
	Constant: "materialize(%s)", // else parts of a union from other nodes would not match
	Hash:     "cityHash64(%s)", Tuple: "(%s) GLOBAL IN (SELECT %s %s)", Arrays: joinedArrays, Label: label, LabelText: labelText, NullPrefix: nullPrefix,

	Saturated: saturated("%[1]s"), Floats: "sum(toFloat64(ifNull(%s, 0)))",
	Measured: measured, Total: totalOf,
	Histogram: func(of, measured string) string {
		h := histogramOf(of, measured, of+"_offsets_ns")
		return h.bounds + " AS h1, " + h.counts + " AS h2, " + h.offsets + " AS h3, " + h.unknown + " AS h4"
	},
	OffsetSum: "if(sum(u) = 0 AND (sum(bitShiftRight(o, 32)) + bitShiftRight(sum(bitAnd(o, 4294967295)), 32) < 4294967296), sum(o), NULL)",
	NoOffsets: "CAST(NULL AS Nullable(UInt64))",
	Summands:  summands, One: "toUInt64(1)", HasHistogram: "{%s_count} > 0",
	Matches: `position(lowerUTF8(concat(
	multiIf(k3 = 0, k0, position(k0, ':') > 0, concat('[', k0, ']:', toString(k3)), concat(k0, ':', toString(k3))), ' > ',
	multiIf(k4 = 0, k1, position(k1, ':') > 0, concat('[', k1, ']:', toString(k4)), concat(k1, ':', toString(k4))), ' ', k2)), lowerUTF8(%s)) > 0`,
	Orders: map[string]string{
		"packets": counted("{packets}"), "bytes": counted("{bytes}"),
		"lost": "if(" + saturated("{expected}") + " = 0, NULL, sum(toFloat64(ifNull({lost}, 0))) / sum(toFloat64(ifNull({expected}, 0))))",
		"max":  "if(countIf({delay_count} > 0) = 0, NULL, maxIf({delay_max_ns}, {delay_count} > 0))", "last": "max({ended})",
	},
	Aggregates: map[string]string{
		"avg": "avg(%[1]s)", "min": "min(%[1]s)", "max": "max(%[1]s)", "sum": "sum(%[1]s)", "first": "argMin(%[1]s, time)", "last": "argMax(%[1]s, time)",
		"p50": quantile("0.5"), "p90": quantile("0.9"), "p99": quantile("0.99"),
	},
	Weighted: "sum(%[1]s * %[2]s) / nullIf(sumIf(%[2]s, isNotNull(%[3]s)), 0)",
}

// rawRows and rolledRows are how tables of flows and of roll-ups have the summands.
var (
	rawRows    = query.Representation{Dialect: dialect, Raw: true}
	rolledRows = query.Representation{Dialect: dialect}
)

// integer is a number in SQL: a literal of 2^63 or less than zero has a type of its own.
func integer(n int64) string { return "toInt64(" + strconv.FormatInt(n, 10) + ")" }

// since and until are terms of a range of time. The first of each is what the primary key
// understands.
func since(t time.Time) []string {
	n := t.UnixNano()
	return []string{hour + " >= " + integer(n/int64(time.Hour)), "time >= " + integer(n)}
}

func until(t time.Time) []string {
	n := t.UnixNano()
	return []string{hour + " <= " + integer(n/int64(time.Hour)), "time < " + integer(n)}
}

func joinedArrays(from string, lists ...[2]string) string {
	named := make([]string, len(lists))
	for i, list := range lists {
		named[i] = list[0] + " AS " + list[1]
	}
	return from + " ARRAY JOIN " + strings.Join(named, ", ")
}

// measured is 1 for rows with a distribution whose count is a column, else 0.
func measured(count, of string) string {
	return fmt.Sprintf("(ifNull(%[1]s, 0) BETWEEN 1 AND %[3]d AND ifNull(%[2]s_min_ns <= %[2]s_max_ns, 0) AND isNotNull(%[2]s_mean_ns))", count, of, int64(flows.CountMax))
}

// saturated is the sum of unsigned integers, at most the largest: ClickHouse would wrap. The upper and lower 32
// bits are summed separately, which is exact for 2^32 rows.
func saturated(value string) string {
	value = "toUInt64(ifNull(" + value + ", 0))"
	return strings.ReplaceAll("if(sum(bitShiftRight(V, 32)) + bitShiftRight(sum(bitAnd(V, 4294967295)), 32) >= 4294967296, 18446744073709551615, bitShiftLeft(sum(bitShiftRight(V, 32)), 32) + sum(bitAnd(V, 4294967295)))", "V", value)
}

// counted is null if no row has a value.
func counted(column string) string {
	return "if(count(" + column + ") = 0, NULL, " + saturated(column) + ")"
}

// quantile is interpolated between the two nearest values.
func quantile(q string) string {
	list := "arraySort(groupArray(%[1]s))"
	place := "(" + q + " * (length(" + list + ") - 1))"
	at := func(round string) string { return list + "[toUInt64(" + round + place + ") + 1]" }
	return "if(count(%[2]s) = 0, NULL, " + at("floor") + " + (" + at("ceil") + " - " + at("floor") + ") * (" + place + " - floor" + place + "))"
}

// label is the SQL of a label, and labelText what archives show of it.
func label(t measure.Type, column string) string {
	text := "toString(" + column + ")"
	if t == measure.Bool {
		text = "if(" + column + " = 1, 'true', if(" + column + " = 0, 'false', ''))"
	}
	return "toString(ifNull(" + text + ", ''))"
}

func labelText(t measure.Type, text string) string {
	ns, err := strconv.ParseInt(text, 10, 64)
	if t != measure.Time || err != nil {
		return text
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.999999999")
}
