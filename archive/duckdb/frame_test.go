package duckdb

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive/ledger"
	"pillion.dev/archive/query"
	"pillion.dev/measure"
)

// someRows has a column of each kind of layout.
func someRows(t testing.TB, rows int) arrow.RecordBatch {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "n", Type: arrow.PrimitiveTypes.Int64, Nullable: true}, {Name: "s", Type: arrow.BinaryTypes.String},
		{Name: "l", Type: arrow.ListOf(arrow.PrimitiveTypes.Uint64)}, {Name: "b", Type: arrow.FixedWidthTypes.Boolean},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append("a text that is not inlined")
		b.Field(2).(*array.ListBuilder).Append(true)
		b.Field(2).(*array.ListBuilder).ValueBuilder().(*array.Uint64Builder).Append(uint64(i))
		b.Field(3).(*array.BooleanBuilder).Append(i%2 == 0)
	}
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return r
}

// readAll reads frames of rows as the server does, and looks at every value.
func readAll(from io.Reader) (rows int64, err error) {
	reader := &recordReader{next: func() ([]byte, error) {
		f, err := readFrame(from, frameBytes)
		return f.content, err
	}}
	for {
		r, err := reader.read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		err = handle(r, query.Limited(10_000, func(r arrow.RecordBatch) error {
			rows += r.NumRows()
			for _, column := range r.Columns() {
				for i := range column.Len() {
					_ = column.ValueStr(i)
				}
			}
			return nil
		}))
		r.Release()
		if err != nil {
			return rows, err
		}
	}
}

func TestFrames(t *testing.T) {
	var buffer bytes.Buffer
	to, rows := &frameWriter{to: &buffer}, &recordWriter{}
	for range 3 {
		content, err := rows.encode(someRows(t, 100))
		if err != nil {
			t.Fatal(err)
		}
		if err := to.send(frameResult, 0, content); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := readAll(&buffer); n != 300 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	large := []byte{frameResult, 0, 0, 0, 0, 0, 0, 0, 0xff}
	if _, err := readFrame(bytes.NewReader(large), frameBytes); !errors.Is(err, errFrame) {
		t.Errorf("a frame that is too large: %v", err)
	}
}

// FuzzFrames: no bytes of a process make the server panic or allocate without bound.
func FuzzFrames(f *testing.F) {
	var buffer bytes.Buffer
	to, rows := &frameWriter{to: &buffer}, &recordWriter{}
	for range 2 {
		content, _ := rows.encode(someRows(f, 3))
		to.send(frameResult, 0, content)
	}
	f.Add(buffer.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) { readAll(bytes.NewReader(text)) })
}

// FuzzScans: no request of a process reaches the archive but for columns of streams.
func FuzzScans(f *testing.F) {
	f.Add([]byte(`{"id":1,"stream":"lines","columns":["v"],"where":[{"column":"time","operator":">=","value":"5"}]}`))
	f.Add([]byte(`{"stream":"lines\"; DROP TABLE lines","where":[{"column":"v","operator":"; --","value":"1"}]}`))
	known := &Archive{catalog: &ledger.Catalog{Schemas: map[string]*measure.Schema{lines.Name: lines}}}
	w := &answering{archive: known, asked: question{Streams: []remoteStream{{"lines", columnsOf(lines), 1}}}}
	f.Fuzz(func(t *testing.T, text []byte) {
		var request scan
		if decodeScan(text, &request) != nil {
			return
		}
		sql, _, err := w.statement(&request)
		if err == nil && (bytes.ContainsAny([]byte(sql), ";'") || bytes.Contains([]byte(sql), []byte("--"))) {
			t.Errorf("statement %s", sql)
		}
	})
}
