package query

import (
	"context"
	"fmt"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Series answers archive.Series. A null in a label is an empty string.
func Series(ctx context.Context, e Engine, question archive.Series) ([]archive.Line, error) {
	s, err := e.Schema(ctx, question.Stream)
	if err != nil {
		return nil, err
	}
	lines, err := answer.NewSeries(s, question)
	if err != nil {
		return nil, err
	}
	q, d := lines.Question, e.Dialect()
	where, err := d.Condition(s, q.Scope, q.Where, q.From, q.To)
	if err != nil {
		return nil, err
	}
	r := &seriesReader{Series: lines, e: e, from: fmt.Sprintf("FROM %s WHERE %s", e.Table(s.Name), where), names: numberedNames("_l", len(q.By))}
	for _, column := range q.By {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return nil, err
		}
		r.labels, r.types = append(r.labels, d.Label(t, d.Quoted(column))), append(r.types, t)
	}
	if err := r.readLines(ctx); err != nil {
		return nil, err
	}
	err = r.readSteps(ctx)
	return lines.Lines, err
}

// seriesReader reads the lines with most rows, then their steps.
type seriesReader struct {
	*answer.Series
	e    Engine
	from string
	// labels are the SQL of the labels, and names their names.
	labels, names []string
	types         []measure.Type
	// places of lines, by the labels as they are read.
	places map[string]int
}

func (q *seriesReader) named() []string {
	list := make([]string, len(q.labels))
	for i := range list {
		list[i] = q.labels[i] + " AS " + q.names[i]
	}
	return list
}

func (q *seriesReader) readLines(ctx context.Context) error {
	if q.places = map[string]int{}; len(q.labels) == 0 {
		return nil
	}
	d, list := q.e.Dialect(), strings.Join(q.names, ", ")
	largest := fmt.Sprintf("SELECT %s %s GROUP BY %s ORDER BY count() DESC, %s LIMIT %d", strings.Join(q.named(), ", "), q.from, list, list, q.Question.Lines)
	err := q.e.Read(ctx, largest, nil, answer.Each(func(r answer.Row) {
		values := q.labelsOf(r, 0)
		q.places[strings.Join(values, "\x00")] = len(q.places)
		for i := range values {
			values[i] = d.LabelText(q.types[i], values[i])
		}
		q.Begin(values)
	}))
	if len(q.places) == q.Question.Lines {
		q.from += " AND " + sql(d.Tuple, strings.Join(q.labels, ", "), list, "FROM ("+largest+")")
	}
	return err
}

// labelsOf are the labels of a row, from a column on.
func (q *seriesReader) labelsOf(r answer.Row, at int) []string {
	values := make([]string, len(q.labels))
	for i := range values {
		values[i] = r.Text(at + i)
	}
	return values
}

func (q *seriesReader) readSteps(ctx context.Context) error {
	d := q.e.Dialect()
	step := sql(d.Div, d.TimeNs+" - "+d.Int(q.Question.From.UnixNano()), int64(q.Step))
	columns := append([]string{step + " AS _step"}, q.named()...)
	for i, aggregate := range q.Question.Columns {
		columns = append(columns, fmt.Sprintf("%s AS _v%d", d.aggregate(aggregate, q.Functions[i]), i))
	}
	steps := fmt.Sprintf("SELECT %s %s GROUP BY %s ORDER BY _step", strings.Join(columns, ", "), q.from, strings.Join(append(q.names, "_step"), ", "))
	return q.e.Read(ctx, steps, nil, answer.Each(func(r answer.Row) {
		if len(q.labels) == 0 && len(q.Lines) == 0 {
			q.Begin(nil)
			q.places[""] = 0
		}
		if place, known := q.places[strings.Join(q.labelsOf(r, 1), "\x00")]; known {
			q.ReadPoint(place, r)
		}
	}))
}

// aggregate is the SQL of one aggregate.
func (d *Dialect) aggregate(a archive.Aggregate, function string) string {
	column := d.Quoted(a.Column)
	switch {
	case function == "count":
		return sql(d.ToFloat, "count("+column+")")
	case a.Weight != "":
		return sql(d.Weighted, sql(d.ToFloat, column), sql(d.ToFloat, d.Quoted(a.Weight)), column)
	}
	return sql(d.Aggregates[function], sql(d.ToFloat, column), column)
}
