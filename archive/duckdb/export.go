package duckdb

import (
	"context"
	"fmt"
	"strings"

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
	columns := question.Columns
	if len(columns) == 0 {
		columns = []string{archive.AgentColumn}
		for _, f := range s.Fields {
			columns = append(columns, f.Name)
		}
	}
	names, fields := make([]string, len(columns)), make([]arrow.Field, len(columns))
	for i, column := range columns {
		t, err := columnType(s, column)
		if err != nil {
			return err
		}
		names[i] = quoted(column)
		fields[i] = arrow.Field{Name: column, Type: measure.ArrowType(t), Nullable: true}
	}
	where, arguments, err := condition(s, question.Where, question.From, question.To)
	if err != nil {
		return err
	}
	sql := fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY time", strings.Join(names, ", "), tableOf(s.Name), where)
	if question.Limit > 0 {
		sql += fmt.Sprintf(" LIMIT %d", question.Limit)
	}
	out := arrow.NewSchema(fields, nil)
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
