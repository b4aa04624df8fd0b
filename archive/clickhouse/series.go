package clickhouse

import (
	"context"
	"fmt"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// aggregates are the functions but for quantiles, with %s for the column as a number.
var aggregates = map[string]string{
	"avg": "avg(%s)", "min": "min(%s)", "max": "max(%s)", "sum": "sum(%s)", "count": "toFloat64(count(%s))",
	"first": "argMin(%s, time)", "last": "argMax(%s, time)",
}

// quantiles are interpolated between the two nearest values.
var quantiles = map[string]string{"p50": "0.5", "p90": "0.9", "p99": "0.99"}

// aggregateSQL is the SQL of one aggregate.
func aggregateSQL(a archive.Aggregate, function string) string {
	value := "toFloat64(" + quoted(a.Column) + ")"
	switch {
	case function == "count":
		return fmt.Sprintf(aggregates[function], quoted(a.Column))
	case a.Weight != "":
		by := "toFloat64(" + quoted(a.Weight) + ")"
		return fmt.Sprintf("sum(%[1]s * %[2]s) / nullIf(sumIf(%[2]s, isNotNull(%[3]s)), 0)", value, by, quoted(a.Column))
	case quantiles[function] != "":
		list := "arraySort(groupArray(" + value + "))"
		place := "(" + quantiles[function] + " * (length(" + list + ") - 1))"
		at := func(round string) string { return list + "[toUInt64(" + round + place + ") + 1]" }
		return fmt.Sprintf("if(count(%[1]s) = 0, NULL, %[2]s + (%[3]s - %[2]s) * (%[4]s - floor%[4]s))", quoted(a.Column), at("floor"), at("ceil"), place)
	}
	return fmt.Sprintf(aggregates[function], value)
}

// Series implements archive.Archive. A null in a label is an empty string.
func (a *Archive) Series(ctx context.Context, question archive.Series) ([]archive.Line, error) {
	s, err := a.schema(ctx, question.Stream)
	if err != nil {
		return nil, err
	}
	lines, err := answer.NewSeries(s, question)
	if err != nil {
		return nil, err
	}
	where, err := dialect.Condition(s, lines.Question.Scope, lines.Question.Where, lines.Question.From, lines.Question.To)
	if err != nil {
		return nil, err
	}
	from := fmt.Sprintf("FROM %s WHERE %s", a.table(s.Name), where)
	if err := a.readSeries(ctx, s, lines, from); err != nil {
		return nil, err
	}
	return lines.Lines, nil
}

// readSeries reads the lines with most rows, then their steps.
func (a *Archive) readSeries(ctx context.Context, s *measure.Schema, lines *answer.Series, from string) error {
	q := lines.Question
	var labels, names, types = []string{}, []string{}, []measure.Type{}
	for i, column := range q.By {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return err
		}
		labels, names, types = append(labels, labelOf(t, column)+fmt.Sprintf(" AS _l%d", i)), append(names, fmt.Sprintf("_l%d", i)), append(types, t)
	}
	places := map[string]int{"": 0}
	if len(q.By) > 0 {
		clear(places)
		list := strings.Join(names, ", ")
		largest := fmt.Sprintf("SELECT %s %s GROUP BY %s ORDER BY count() DESC, %s LIMIT %d", strings.Join(labels, ", "), from, list, list, q.Lines)
		err := a.read(ctx, largest, nil, answer.Each(func(r answer.Row) {
			values := make([]string, len(q.By))
			for i := range values {
				values[i] = r.Text(i)
			}
			places[strings.Join(values, "\x00")] = len(places)
			for i := range values {
				values[i] = labelText(types[i], values[i])
			}
			lines.Begin(values)
		}))
		if err != nil {
			return err
		}
		if len(places) == q.Lines {
			bare := make([]string, len(labels))
			for i, column := range q.By {
				bare[i] = labelOf(types[i], column)
			}
			from += fmt.Sprintf(" AND (%s) GLOBAL IN (%s)", strings.Join(append(bare, "1"), ", "), strings.Replace(largest, " FROM ", ", 1 FROM ", 1))
		}
	}
	columns := append([]string{"toInt64(0) AS _line", fmt.Sprintf("intDiv(time - %s, %d) AS _step", integer(q.From.UnixNano()), int64(lines.Step))}, labels...)
	for i, aggregate := range q.Columns {
		columns = append(columns, fmt.Sprintf("%s AS _v%d", aggregateSQL(aggregate, lines.Functions[i]), i))
	}
	sql := fmt.Sprintf("SELECT %s %s GROUP BY %s ORDER BY _step", strings.Join(columns, ", "), from, strings.Join(append(names, "_step"), ", "))
	return a.read(ctx, sql, nil, answer.Each(func(r answer.Row) {
		values := make([]string, len(q.By))
		for i := range values {
			values[i] = r.Text(2 + i)
		}
		if len(q.By) == 0 && len(lines.Lines) == 0 {
			lines.Begin(nil)
		}
		if place, known := places[strings.Join(values, "\x00")]; known {
			lines.ReadPoint(place, r)
		}
	}))
}

// labelOf is the SQL of a label.
func labelOf(t measure.Type, column string) string {
	text := "toString(" + quoted(column) + ")"
	if t == measure.Bool {
		text = "if(" + quoted(column) + " = 1, 'true', if(" + quoted(column) + " = 0, 'false', ''))"
	}
	return "toString(ifNull(" + text + ", ''))"
}

// labelText is a label as archives show it.
func labelText(t measure.Type, text string) string {
	if t != measure.Time || text == "" {
		return text
	}
	var ns int64
	if _, err := fmt.Sscan(text, &ns); err != nil {
		return text
	}
	return time.Unix(0, ns).UTC().Format("2006-01-02 15:04:05.999999999")
}
