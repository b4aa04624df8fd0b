package duckdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Export implements archive.Archive. The batches have the columns' types as
// measure has them. Rows are sorted by DuckDB within its limit of memory, beyond
// which it sorts on disk.
func (a *Archive) Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error {
	s, err := a.known(question.Stream)
	if err != nil {
		return err
	}
	where, arguments, err := condition(s, question.Scope, question.Where, question.From, question.To)
	if err != nil {
		return err
	}
	rest := where + " ORDER BY time"
	if question.Newest {
		rest += " DESC"
	}
	if question.Limit > 0 {
		rest += fmt.Sprintf(" LIMIT %d", question.Limit)
	}
	return a.rowsOf(ctx, s, question.Columns, rest, arguments, rows)
}

// Traces implements archive.Archive. An archive that never had a trace has none.
func (a *Archive) Traces(ctx context.Context, question archive.Traces, rows func(arrow.RecordBatch) error) error {
	s, err := a.known(measure.Hops.Name)
	if errors.Is(err, archive.ErrUnknown) {
		return nil
	}
	where := "agent = ? AND peer = ? AND dst = ? AND protocol = ? AND time <= ?"
	arguments := []any{question.Source, question.Destination, question.Address, question.Protocol, cmp.Or(question.Until, time.Now())}
	rest := fmt.Sprintf("%[1]s AND time IN (SELECT DISTINCT time FROM %[2]s WHERE %[1]s ORDER BY time DESC LIMIT %[3]d) ORDER BY time, ttl",
		where, tableOf(s.Name), question.Most)
	return a.rowsOf(ctx, s, nil, rest, slices.Concat(arguments, arguments), rows)
}

// rowsOf hands on columns, by default all, of the rows of a stream that the rest of
// the statement, which begins with the condition, selects.
func (a *Archive) rowsOf(ctx context.Context, s *measure.Schema, columns []string, rest string, arguments []any, rows func(arrow.RecordBatch) error) error {
	if len(columns) == 0 {
		columns = []string{archive.AgentColumn}
		for _, f := range s.Fields {
			columns = append(columns, f.Name)
		}
	}
	names, fields := make([]string, len(columns)), make([]arrow.Field, len(columns))
	for i, column := range columns {
		t, err := answer.ColumnType(s, column)
		if err != nil {
			return err
		}
		names[i] = quoted(column)
		fields[i] = arrow.Field{Name: column, Type: measure.ArrowType(t), Nullable: true}
	}
	sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(names, ", "), tableOf(s.Name), rest)
	return a.typed(ctx, sql, arguments, arrow.NewSchema(fields, nil), rows)
}

// typed passes the rows of a statement with the types of our schema.
func (a *Archive) typed(ctx context.Context, sql string, arguments []any, out *arrow.Schema, rows func(arrow.RecordBatch) error) error {
	return a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		return c.query(ctx, sql, arguments, func(r arrow.RecordBatch) error {
			typed := retyped(r, out)
			defer typed.Release()
			return rows(typed)
		})
	})
}

// retyped is the same record with our schema: DuckDB's timestamps carry no zone,
// and the fields of its lists have other names.
func retyped(r arrow.RecordBatch, schema *arrow.Schema) arrow.RecordBatch {
	columns := make([]arrow.Array, r.NumCols())
	for i, column := range r.Columns() {
		d := column.Data()
		data := array.NewData(schema.Field(i).Type, d.Len(), d.Buffers(), d.Children(), d.NullN(), d.Offset())
		columns[i] = array.MakeFromData(data)
		data.Release()
	}
	out := array.NewRecordBatch(schema, columns, r.NumRows())
	for _, column := range columns {
		column.Release()
	}
	return out
}
