package duckdb

import (
	"context"
	"fmt"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// aggregates are the functions, with %s for the column as a number.
var aggregates = map[string]string{
	"avg": "avg(%s)", "min": "min(%s)", "max": "max(%s)", "sum": "sum(%s)", "count": "count(%s)",
	"first": "arg_min(%s, time)", "last": "arg_max(%s, time)",
	"p50": "quantile_cont(%s, 0.5)", "p90": "quantile_cont(%s, 0.9)", "p99": "quantile_cont(%s, 0.99)",
}

// expression is the SQL of one aggregate.
func expression(a archive.Aggregate, function string) string {
	value := quoted(a.Column) + "::DOUBLE"
	switch {
	case function == "count":
		value = quoted(a.Column)
	case a.Weight != "":
		by := quoted(a.Weight) + "::DOUBLE"
		return fmt.Sprintf("sum(%s * %s) / nullif(sum(%s) FILTER (%s IS NOT NULL), 0)", value, by, by, quoted(a.Column))
	}
	return fmt.Sprintf(aggregates[function], value) + "::DOUBLE"
}

// Series implements archive.Archive. A null in a label is an empty string.
func (a *Archive) Series(ctx context.Context, question archive.Series) ([]archive.Line, error) {
	s, err := a.known(question.Stream)
	if err != nil {
		return nil, err
	}
	lines, err := answer.NewSeries(s, question)
	if err != nil {
		return nil, err
	}
	sql, err := seriesSQL(s, lines)
	if err != nil {
		return nil, err
	}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		return c.query(ctx, sql, nil, answer.Each(lines.Read))
	})
	return lines.Lines, err
}

// seriesSQL selects line, step, labels and values, the line with most rows first.
func seriesSQL(s *measure.Schema, lines *answer.Series) (string, error) {
	labels, values, q := []string{}, []string{}, lines.Question
	for i, column := range q.By {
		labels = append(labels, fmt.Sprintf("coalesce(%s::VARCHAR, '') AS l%d", quoted(column), i))
	}
	for i, aggregate := range q.Columns {
		values = append(values, fmt.Sprintf("%s AS v%d", expression(aggregate, lines.Functions[i]), i))
	}
	where, err := dialect.Condition(s, q.Scope, q.Where, q.From, q.To)
	if err != nil {
		return "", err
	}
	names := make([]string, len(labels))
	for i := range labels {
		names[i] = fmt.Sprintf("l%d", i)
	}
	key := strings.Join(append(names, "1"), ", ") // the 1 keeps the list from being empty
	inner := append([]string{fmt.Sprintf("(epoch_ns(time) - %d) // %d AS step", q.From.UnixNano(), int64(lines.Step)), "count(*) AS n"}, append(labels, values...)...)
	sql := fmt.Sprintf(`WITH steps AS (SELECT %s FROM %s WHERE %s GROUP BY ALL),
		sized AS (SELECT *, sum(n) OVER (PARTITION BY (%s)) AS total FROM steps),
		ranked AS (SELECT *, dense_rank() OVER (ORDER BY total DESC, (%s)) AS line FROM sized)
		SELECT line, step, * EXCLUDE (line, step, n, total) FROM ranked WHERE line <= %d ORDER BY line, step`,
		strings.Join(inner, ", "), tableOf(s.Name), where, key, key, q.Lines)
	return sql, nil
}
