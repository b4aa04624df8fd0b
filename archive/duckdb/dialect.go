package duckdb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"pillion.dev/archive/answer"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// dialect is the SQL of DuckDB. Values are constants of the statement, which prunes by zone maps
// as well as with parameters.
var dialect = &query.Dialect{
	Concurrent: 1, // on the connection of the question
	Quoted:     quoted, Literal: literal,
	Int:     func(n int64) string { return fmt.Sprintf("CAST(%d AS BIGINT)", n) },
	Uint:    func(n uint64) string { return fmt.Sprintf("CAST(%d AS UBIGINT)", n) },
	Float:   func(f float64) string { return "CAST('" + strconv.FormatFloat(f, 'g', -1, 64) + "' AS DOUBLE)" },
	Instant: instant,
	Since:   func(t time.Time) []string { return []string{"time >= " + instant(t)} },
	Until:   func(t time.Time) []string { return []string{"time < " + instant(t)} },
	ToInt:   "(%s)::BIGINT", ToUint: "(%s)::UBIGINT", ToFloat: "(%s)::DOUBLE", ToText: "%s",
	Number: "coalesce(try_cast(%s AS BIGINT), 0)", Div: "((%s) // %d)",
	TimeNs: "epoch_ns(time)", Source: quoted("source"), Constant: "%s",
	Hash: "(hash(%s) >> 1)", Tuple: "(%s) IN (SELECT (%s) %s)", Arrays: unnested,
	Label:     func(_ measure.Type, column string) string { return "coalesce(" + column + "::VARCHAR, '')" },
	LabelText: func(_ measure.Type, text string) string { return text },

	Saturated: "least(coalesce(sum(%s), 0), 18446744073709551615)::UBIGINT", Floats: "coalesce(sum(%s), 0)::DOUBLE",
	Measured: measured, Total: "%[2]s::HUGEINT * %[1]s",
	Histogram: func(of, _ string) string {
		return fmt.Sprintf("%[1]s_bounds_ns AS h1, %[1]s_counts AS h2, %[1]s_offsets_ns AS h3, NULL::UBIGINT[] AS h4", of)
	},
	OffsetSum: "CASE WHEN count(o) = count() THEN try_cast(sum(o) AS UBIGINT) END", NoOffsets: "NULL::UBIGINT",
	Summands: summands, One: "1",
	HasHistogram: "({%s_count} > 0 AND len({%s_bounds_ns}) = len({%s_counts}) AND ({%s_offsets_ns} IS NULL OR len({%s_offsets_ns}) = len({%s_counts})))",
	Matches: `contains(lower(CASE WHEN k3 = 0 THEN k0 WHEN contains(k0, ':') THEN '[' || k0 || ']:' || k3 ELSE k0 || ':' || k3 END || ' > ' ||
		CASE WHEN k4 = 0 THEN k1 WHEN contains(k1, ':') THEN '[' || k1 || ']:' || k4 ELSE k1 || ':' || k4 END || ' ' || k2), lower(%s))`,
	Orders: map[string]string{
		"packets": "sum({packets})", "bytes": "sum({bytes})", "lost": "sum({lost})::DOUBLE / nullif(sum({expected}), 0)",
		"max": "max({delay_max_ns})", "last": "max({ended})",
	},
	Aggregates: map[string]string{
		"avg": "avg(%[1]s)", "min": "min(%[1]s)", "max": "max(%[1]s)", "sum": "sum(%[1]s)", "first": "arg_min(%[1]s, time)", "last": "arg_max(%[1]s, time)",
		"p50": "quantile_cont(%[1]s, 0.5)", "p90": "quantile_cont(%[1]s, 0.9)", "p99": "quantile_cont(%[1]s, 0.99)",
	},
	Weighted: "sum(%[1]s * %[2]s) / nullif(sum(%[2]s) FILTER (%[3]s IS NOT NULL), 0)",
}

// literal is a text in SQL. A statement ends at a NUL byte.
func literal(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "'", "''"), "\x00", "' || chr(0) || '") + "'"
}

func instant(t time.Time) string { return fmt.Sprintf("make_timestamp_ns(%d)", t.UnixNano()) }

// unnested pads shorter lists with nulls; elements without the first are left out.
func unnested(from string, lists ...[2]string) string {
	elements := ""
	for _, list := range lists {
		elements += ", unnest(" + list[0] + ") AS " + list[1]
	}
	return "FROM (SELECT * FROM (SELECT *" + elements + " " + from + ") WHERE " + lists[0][1] + " IS NOT NULL)"
}

// measured is true of rows with a distribution whose count is a column; package flows takes the others as without.
func measured(count, of string) string {
	return fmt.Sprintf("(%[1]s BETWEEN 1 AND %[3]d AND %[2]s_min_ns <= %[2]s_max_ns AND %[2]s_mean_ns IS NOT NULL)", count, of, int64(flows.CountMax))
}

// summands of rows of flows. Values of distributions that are not measured are null.
var summands = func() []query.Summand {
	interval := fmt.Sprintf("greatest(0, least(coalesce(interval_ns, 0), %d))", int64(flows.IntervalMax))
	list := []query.Summand{
		{Name: "agent", Value: "agent"},
		{Name: "unit", Value: fmt.Sprintf("((%s * 9 // 10 + %d) // %d)::BIGINT", interval, int64(answer.Unit-1), int64(answer.Unit))},
		{Name: "time", Value: "(epoch_ns(time) - " + interval + " // 2)"},
		{Name: "begun", Value: "(epoch_ns(time) - " + interval + ")"}, {Name: "ended", Value: "epoch_ns(time)"},
		{Name: "rows", Value: "1", Merge: "count()"},
		{
			Name: "clock_error_ns",
			Value: "CASE WHEN " + measured("delay_count", "delay") + ` AND clock_error_ns >= 0 AND source_clock_error_ns >= 0 THEN
				least(clock_error_ns::HUGEINT + source_clock_error_ns, 9223372036854775807)::BIGINT END`,
			// A row whose clock error is unknown makes the clock error of the sum unknown.
			Merge: "CASE WHEN count({delay_count}) = count({clock_error_ns}) THEN max({clock_error_ns}) END",
		},
	}
	for _, column := range []string{"source", "session", "src", "dst", "proto"} {
		list = append(list, query.Summand{Name: column, Value: "ifNull(" + column + ", '')"})
	}
	for _, column := range []string{"sport", "dport"} { // whose types an agent can have widened
		list = append(list, query.Summand{Name: column, Value: "coalesce(try_cast(" + column + " AS BIGINT), 0)"})
	}
	for _, column := range flows.CountNames {
		list = append(list, query.Summand{Name: column, Value: column})
	}
	for _, of := range query.Distributions {
		when := "CASE WHEN " + measured(of+"_count", of) + " THEN %s END"
		offsets := "NULL::UBIGINT[]"
		if of == "delay" {
			offsets = "delay_offsets_ns"
		}
		list = append(list,
			query.Summand{Name: of + "_count", Value: fmt.Sprintf(when, of+"_count"), Merge: "least(coalesce(sum({" + of + "_count}), 0), 18446744073709551615)::UBIGINT"},
			query.Summand{Name: of + "_min_ns", Value: fmt.Sprintf(when, of+"_min_ns"), Merge: "min({" + of + "_min_ns})"},
			query.Summand{Name: of + "_max_ns", Value: fmt.Sprintf(when, of+"_max_ns"), Merge: "max({" + of + "_max_ns})"},
			query.Summand{Name: of + "_total_ns", Value: fmt.Sprintf(when, of+"_mean_ns::HUGEINT * "+of+"_count"), Merge: "sum({" + of + "_total_ns})"},
			query.Summand{Name: of + "_bounds_ns", Value: of + "_bounds_ns"}, query.Summand{Name: of + "_counts", Value: of + "_counts"},
			query.Summand{Name: of + "_offsets_ns", Value: offsets}, query.Summand{Name: of + "_unknown", Value: "NULL::UBIGINT[]"})
	}
	return list
}()
