package duckdb

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

const (
	pointsMax    = 100_000
	linesDefault = 100
)

// aggregates are the functions, with %s for the column as a number.
var aggregates = map[string]string{
	"avg": "avg(%s)", "min": "min(%s)", "max": "max(%s)", "sum": "sum(%s)", "count": "count(%s)",
	"first": "arg_min(%s, time)", "last": "arg_max(%s, time)",
	"p50": "quantile_cont(%s, 0.5)", "p90": "quantile_cont(%s, 0.9)", "p99": "quantile_cont(%s, 0.99)",
}

// suited is the default function for a column: the maximum for counters, the sum for
// counts per interval.
func suited(f measure.Field) string {
	switch {
	case !numeric(f.Type):
		return "count"
	case strings.Contains(f.Name, "_min_"):
		return "min"
	case strings.Contains(f.Name, "_max_"), strings.Contains(f.Doc, "since the "):
		return "max"
	case f.Unit == "packets", f.Name == "bytes":
		return "sum"
	}
	return "avg"
}

func numeric(t measure.Type) bool {
	switch t {
	case measure.Int32, measure.Uint32, measure.Int64, measure.Uint64, measure.Float64, measure.Bool:
		return true
	}
	return false
}

// expression is the SQL of one aggregate.
func expression(s *measure.Schema, a archive.Aggregate) (string, error) {
	t, err := columnType(s, a.Column)
	if err != nil {
		return "", err
	}
	name := a.Function
	if name == "" {
		name = "count"
		if i := s.Index(a.Column); i >= 0 {
			name = suited(s.Fields[i])
		}
	}
	pattern := aggregates[name]
	if pattern == "" {
		return "", fmt.Errorf("%w: unknown function %q", archive.ErrQuery, a.Function)
	}
	if name == "count" {
		return fmt.Sprintf("count(%s)::DOUBLE", quoted(a.Column)), nil
	}
	if !numeric(t) {
		return "", fmt.Errorf("%w: %s of %q, which is %v", archive.ErrQuery, name, a.Column, t)
	}
	value := quoted(a.Column) + "::DOUBLE"
	if a.Weight == "" {
		return fmt.Sprintf(pattern, value) + "::DOUBLE", nil
	}
	weight, err := columnType(s, a.Weight)
	if err != nil {
		return "", err
	}
	if name != "avg" || !numeric(weight) {
		return "", fmt.Errorf("%w: %s of %q weighted by %q: only averages can be weighted, by a numeric column", archive.ErrQuery, name, a.Column, a.Weight)
	}
	by := quoted(a.Weight) + "::DOUBLE"
	return fmt.Sprintf("sum(%s * %s) / nullif(sum(%s) FILTER (%s IS NOT NULL), 0)", value, by, by, quoted(a.Column)), nil
}

// Series implements archive.Archive. A null in a label is an empty string.
func (a *Archive) Series(ctx context.Context, question archive.Series) ([]archive.Line, error) {
	s, err := a.known(question.Stream)
	if err != nil {
		return nil, err
	}
	if question.To.IsZero() {
		question.To = time.Now()
	}
	if question.Lines <= 0 {
		question.Lines = linesDefault
	}
	span := question.To.Sub(question.From)
	if question.From.IsZero() || span <= 0 || question.Points < 1 || question.Points > pointsMax || len(question.Columns) == 0 {
		return nil, fmt.Errorf("%w: a series requires columns, a time range and 1 to %d points", archive.ErrQuery, pointsMax)
	}
	step := (span + time.Duration(question.Points) - 1) / time.Duration(question.Points)
	step = (step + time.Millisecond - 1) / time.Millisecond * time.Millisecond
	sql, arguments, err := seriesSQL(s, question, step)
	if err != nil {
		return nil, err
	}
	lines := &lineReader{question: question, step: step}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		return c.query(ctx, sql, arguments, each(lines.read))
	})
	return lines.lines, err
}

// seriesSQL selects line, step, labels and values, the line with most rows first.
func seriesSQL(s *measure.Schema, q archive.Series, step time.Duration) (string, []any, error) {
	labels, values := []string{}, []string{}
	for i, column := range q.By {
		if _, err := columnType(s, column); err != nil {
			return "", nil, err
		}
		labels = append(labels, fmt.Sprintf("coalesce(%s::VARCHAR, '') AS l%d", quoted(column), i))
	}
	for i, aggregate := range q.Columns {
		value, err := expression(s, aggregate)
		if err != nil {
			return "", nil, err
		}
		values = append(values, fmt.Sprintf("%s AS v%d", value, i))
	}
	where, arguments, err := condition(s, q.Where, q.From, q.To)
	if err != nil {
		return "", nil, err
	}
	names := make([]string, len(labels))
	for i := range labels {
		names[i] = fmt.Sprintf("l%d", i)
	}
	key := strings.Join(append(names, "1"), ", ") // the 1 keeps the list from being empty
	inner := append([]string{fmt.Sprintf("(epoch_ns(time) - %d) // %d AS step", q.From.UnixNano(), int64(step)), "count(*) AS n"}, append(labels, values...)...)
	sql := fmt.Sprintf(`WITH steps AS (SELECT %s FROM %s WHERE %s GROUP BY ALL),
		sized AS (SELECT *, sum(n) OVER (PARTITION BY (%s)) AS total FROM steps),
		ranked AS (SELECT *, dense_rank() OVER (ORDER BY total DESC, (%s)) AS line FROM sized)
		SELECT line, step, * EXCLUDE (line, step, n, total) FROM ranked WHERE line <= %d ORDER BY line, step`,
		strings.Join(inner, ", "), tableOf(s.Name), where, key, key, q.Lines)
	return sql, arguments, nil
}

// lineReader builds lines from the rows of seriesSQL.
type lineReader struct {
	question archive.Series
	step     time.Duration
	lines    []archive.Line
	number   int64
}

func (l *lineReader) read(r resultRow) {
	values := 2 + len(l.question.By)
	if n := r.int(0); n != l.number || len(l.lines) == 0 {
		l.number = n
		labels := map[string]string{}
		for k, column := range l.question.By {
			labels[column] = r.text(2 + k)
		}
		l.lines = append(l.lines, archive.Line{Labels: labels})
	}
	line := &l.lines[len(l.lines)-1]
	line.Times = append(line.Times, l.question.From.Add(time.Duration(r.int(1))*l.step).UTC())
	of := make([]float64, len(l.question.Columns))
	for k := range of {
		if of[k] = math.NaN(); !r.isNull(values + k) {
			of[k] = r.float(values + k)
		}
	}
	line.Values = append(line.Values, of)
}
