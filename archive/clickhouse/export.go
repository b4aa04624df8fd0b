package clickhouse

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

// exportRows are sorted at once: hours are put together up to this many rows.
const exportRows = 1 << 20

// hours is a range of hours since 1970, inclusive, with the number of its rows.
type hours struct{ first, last, rows int64 }

// Export implements archive.Archive. Rows are sorted by the hour, which bounds the memory of
// the servers: each shard sorts its rows, and one merges them.
func (a *Archive) Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	s, err := a.schema(ctx, question.Stream)
	if err != nil {
		return err
	}
	where, err := condition(s, question.Scope, question.Where, question.From, question.To)
	if err != nil {
		return err
	}
	columns, schema, err := exported(s, question.Columns)
	if err != nil {
		return err
	}
	ranges, err := a.hours(ctx, s, where)
	if err != nil {
		return err
	}
	direction := ""
	if question.Newest {
		slices.Reverse(ranges)
		direction = " DESC"
	}
	left := question.Limit
	for _, r := range ranges {
		sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s BETWEEN %s AND %s ORDER BY time%s", columns, a.table(s.Name), where, hour, integer(r.first), integer(r.last), direction)
		if question.Limit > 0 {
			if left <= 0 {
				return nil
			}
			sql += fmt.Sprintf(" LIMIT %d", left)
		}
		err := a.read(ctx, sql, schema, func(r arrow.RecordBatch) error {
			left -= r.NumRows()
			return rows(r)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// hours are those with rows, ascending.
func (a *Archive) hours(ctx context.Context, s *measure.Schema, where string) (list []hours, err error) {
	sql := fmt.Sprintf("SELECT %s AS _hour, toInt64(count()) FROM %s WHERE %s GROUP BY _hour ORDER BY _hour", hour, a.table(s.Name), where)
	err = a.read(ctx, sql, nil, answer.Each(func(r answer.Row) {
		one := hours{r.Int(0), r.Int(0), r.Int(1)}
		if n := len(list); n > 0 && list[n-1].rows+one.rows <= exportRows {
			list[n-1].last = one.last
			list[n-1].rows += one.rows
			return
		}
		list = append(list, one)
	}))
	return list, err
}

// exported are the SQL of columns, by default all, and their types.
func exported(s *measure.Schema, columns []string) (string, *arrow.Schema, error) {
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
		if isList(t) { // which cannot be null: the column before it says whether it is
			list = append(list, quoted(nullPrefix+column))
		}
		list = append(list, quoted(column))
		fields = append(fields, arrow.Field{Name: column, Type: measure.ArrowType(t), Nullable: true})
	}
	return strings.Join(list, ", "), arrow.NewSchema(fields, nil), nil
}

// Traces implements archive.Archive. An archive that never had a trace has none.
func (a *Archive) Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	s, err := a.schema(ctx, measure.Hops.Name)
	if errors.Is(err, archive.ErrUnknown) {
		return nil
	} else if err != nil {
		return err
	}
	columns, schema, err := exported(s, nil)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("agent = %s AND peer = %s AND dst = %s AND protocol = %s AND %s", literal(question.Source), literal(question.Destination),
		literal(question.Address), literal(question.Protocol), strings.Join(until(cmp.Or(question.Until, time.Now()).Add(1)), " AND "))
	sql := fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[3]s AND time GLOBAL IN (SELECT DISTINCT time FROM %[2]s WHERE %[3]s ORDER BY time DESC LIMIT %[4]d) ORDER BY time, ttl",
		columns, a.table(s.Name), where, question.Most)
	return a.read(ctx, sql, schema, rows)
}

// Highest implements archive.Archive.
func (a *Archive) Highest(ctx context.Context, stream, column string, where map[string]string) (highest int64, err error) {
	s, err := a.schema(ctx, stream)
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
	terms, err := condition(s, nil, where, time.Time{}, time.Time{})
	if err != nil {
		return 0, err
	}
	sql := fmt.Sprintf("SELECT toInt64(ifNull(max(%s), 0)) FROM %s WHERE %s", quoted(column), a.table(s.Name), terms)
	err = a.read(ctx, sql, nil, answer.Each(func(r answer.Row) { highest = r.Int(0) }))
	return highest, err
}
