package duckdb

import (
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	duckdb "github.com/duckdb/duckdb-go-bindings"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// appendByValue works like duckdb-go's Appender.AppendRow: value by value, by type, with
// strings copied by DuckDB.
func (c *connection) appendByValue(schema, table string, types []measure.Type, p part) error {
	f := &filler{types: types}
	defer duckdb.AppenderDestroy(&f.appender)
	if duckdb.AppenderCreate(c.raw, schema, table, &f.appender) == duckdb.StateError {
		return f.fault()
	}
	logical := make([]duckdb.LogicalType, len(types))
	for i, t := range types {
		logical[i] = logicalType(t)
		defer duckdb.DestroyLogicalType(&logical[i])
	}
	f.chunk = duckdb.CreateDataChunk(logical)
	defer duckdb.DestroyDataChunk(&f.chunk)
	row := make([]any, len(types))
	for i := range p.rows {
		for k, column := range p.columns {
			if row[k] = nil; column != nil && column.IsValid(i) {
				row[k] = anyOf(column, i)
			}
			setValue(duckdb.DataChunkGetVector(f.chunk, duckdb.IdxT(k)), f.filled, row[k])
		}
		if f.filled++; f.filled == int(duckdb.VectorSize()) {
			if err := f.flush(); err != nil {
				return err
			}
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	if duckdb.AppenderClose(f.appender) == duckdb.StateError {
		return f.fault()
	}
	return nil
}

func anyOf(column any, i int) any {
	switch c := column.(type) {
	case *array.String:
		return c.Value(i)
	case *array.Timestamp:
		return int64(c.Value(i))
	case *array.Int64:
		return c.Value(i)
	case *array.Uint64:
		return c.Value(i)
	case *array.Uint32:
		return c.Value(i)
	case *array.List:
		start, end := c.ValueOffsets(i)
		list := make([]any, 0, end-start)
		for j := start; j < end; j++ {
			list = append(list, anyOf(c.ListValues(), int(j)))
		}
		return list
	}
	return nil
}

func setValue(vector duckdb.Vector, at int, value any) {
	data := duckdb.VectorGetData(vector)
	switch v := value.(type) {
	case nil:
		setNulls(vector, at, 1, func(int) bool { return true })
	case string:
		duckdb.VectorAssignStringElementLen(vector, duckdb.IdxT(at), []byte(v))
	case int64:
		unsafe.Slice((*int64)(data), at+1)[at] = v
	case uint64:
		unsafe.Slice((*uint64)(data), at+1)[at] = v
	case uint32:
		unsafe.Slice((*uint32)(data), at+1)[at] = v
	case []any:
		size := int(duckdb.ListVectorGetSize(vector))
		duckdb.ListVectorReserve(vector, duckdb.IdxT(size+len(v)))
		duckdb.ListVectorSetSize(vector, duckdb.IdxT(size+len(v)))
		for j, element := range v {
			setValue(duckdb.ListVectorGetChild(vector), size+j, element)
		}
		unsafe.Slice((*[2]uint64)(data), at+1)[at] = [2]uint64{uint64(size), uint64(len(v))}
	}
}

// fillWays are the two ways to append rows of flows to the archive.
func fillWays(types []measure.Type, p part) map[string]func(*connection) error {
	return map[string]func(*connection) error{
		"columns": func(c *connection) error { return c.appendParts("main", measure.Flows.Name, types, []part{p}) },
		"values":  func(c *connection) error { return c.appendByValue("main", measure.Flows.Name, types, p) },
	}
}

// flowsPart has rows of flows in the columns of their table, which the archive has made.
func flowsPart(t testing.TB, a *Archive, rows int) (types []measure.Type, p part) {
	t.Helper()
	store(t, a, longBatch(t, 0, 0, 1))
	made, table := longBatch(t, 0, 0, rows), a.catalog.Schemas[measure.Flows.Name]
	p = part{rows: rows, columns: []arrow.Array{repeated("appended", rows)}}
	for _, f := range table.Fields {
		if f == archive.ArrivalField {
			p.columns = append(p.columns, constant(epoch, rows))
		} else {
			p.columns = append(p.columns, made.Record.Column(made.Schema.Index(f.Name)))
		}
	}
	return tableTypes(table), p
}

// Both ways append the same rows.
func TestFillWays(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	types, p := flowsPart(t, a, 100)
	for name, fill := range fillWays(types, p) {
		if err := a.writer.inTransaction(t.Context(), func() error { return fill(a.writer) }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	const appended = " FROM flows WHERE agent = 'appended'"
	if n, different := count(t, a, "SELECT count(*)"+appended), count(t, a, "SELECT count(*) FROM (SELECT DISTINCT *"+appended+")"); n != 200 || different != 100 {
		t.Errorf("%d rows, %d of them different", n, different)
	}
}

// BenchmarkFill appends 50,000 rows of flows and commits them, column by column as the
// archive does, and value by value; study/bench/fill.yaml compares the two.
func BenchmarkFill(b *testing.B) {
	for _, name := range []string{"columns", "values"} {
		b.Run(name, func(b *testing.B) {
			a := open(b, filepath.Join(b.TempDir(), "a"), Options{})
			types, p := flowsPart(b, a, 50_000)
			fill := fillWays(types, p)[name]
			for b.Loop() {
				if err := a.writer.inTransaction(b.Context(), func() error { return fill(a.writer) }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(p.rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
