package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Columns are the SQL of columns, by default all, and their types.
func (d *Dialect) Columns(s *measure.Schema, columns []string) (string, *arrow.Schema, error) {
	if len(columns) == 0 {
		columns = []string{archive.AgentColumn}
		for _, f := range s.Fields {
			columns = append(columns, f.Name)
		}
	}
	var list []string
	var fields []arrow.Field
	for _, column := range columns {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return "", nil, err
		}
		if d.NullPrefix != "" && (t == measure.Int64List || t == measure.Uint64List) { // the column before it says whether it is null
			list = append(list, d.Quoted(d.NullPrefix+column))
		}
		list = append(list, d.Quoted(column))
		fields = append(fields, arrow.Field{Name: column, Type: measure.ArrowType(t), Nullable: true})
	}
	return strings.Join(list, ", "), arrow.NewSchema(fields, nil), nil
}

// Traces answers archive.Traces. An archive that never had a trace has none.
func Traces(ctx context.Context, e Engine, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	s, err := e.Schema(ctx, measure.Hops.Name)
	if errors.Is(err, archive.ErrUnknown) {
		return nil
	} else if err != nil {
		return err
	}
	d := e.Dialect()
	columns, schema, err := d.Columns(s, nil)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("agent = %s AND peer = %s AND dst = %s AND protocol = %s AND %s", d.Literal(question.Source), d.Literal(question.Destination),
		d.Literal(question.Address), d.Literal(question.Protocol), strings.Join(d.Until(cmp.Or(question.Until, time.Now()).Add(1)), " AND "))
	last := sql(d.Tuple, "time", "time", fmt.Sprintf("FROM %s WHERE %s GROUP BY time ORDER BY time DESC LIMIT %d", e.Table(s.Name), where, question.Most))
	return e.Read(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s ORDER BY time, ttl", columns, e.Table(s.Name), where, last), schema, rows)
}

// Highest answers archive.Archive.Highest.
func Highest(ctx context.Context, e Engine, stream, column string, where map[string]string) (highest int64, err error) {
	s, err := e.Schema(ctx, stream)
	if err != nil {
		return 0, err
	}
	t, err := answer.ColumnType(s, column)
	if err != nil {
		return 0, err
	}
	if !slices.Contains([]measure.Type{measure.Int32, measure.Uint32, measure.Int64, measure.Uint64}, t) {
		return 0, fmt.Errorf("%w: highest of %q, which is %v", archive.ErrQuery, column, t)
	}
	d := e.Dialect()
	condition, err := d.Condition(s, nil, where, time.Time{}, time.Time{})
	if err != nil {
		return 0, err
	}
	most := fmt.Sprintf("SELECT %s FROM %s WHERE %s", sql(d.ToInt, "ifNull(max("+d.Quoted(column)+"), 0)"), e.Table(s.Name), condition)
	err = e.Read(ctx, most, nil, answer.Each(func(r answer.Row) { highest = r.Int(0) }))
	return highest, err
}
