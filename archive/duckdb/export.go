package duckdb

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
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
	where, err := dialect.Condition(s, question.Scope, question.Where, question.From, question.To)
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
	return a.rowsOf(ctx, s, question.Columns, rest, nil, rows)
}

// rowsOf passes columns, by default all, of the rows of a stream that the rest of
// the statement, which begins with the condition, selects.
func (a *Archive) rowsOf(ctx context.Context, s *measure.Schema, columns []string, rest string, arguments []any, rows func(arrow.RecordBatch) error) error {
	list, schema, err := dialect.Columns(s, columns)
	if err != nil {
		return err
	}
	sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s", list, tableOf(s.Name), rest)
	return a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		return c.query(ctx, sql, arguments, typed(schema, rows))
	})
}

// typed passes rows with the types of our schema.
func typed(want *arrow.Schema, rows func(arrow.RecordBatch) error) func(arrow.RecordBatch) error {
	return func(r arrow.RecordBatch) error {
		r = retyped(r, want)
		defer r.Release()
		return rows(r)
	}
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
