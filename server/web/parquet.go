package web

import (
	"bytes"
	"encoding/base64"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/parquet-go/parquet-go"
)

const (
	// rowGroupRows limits the memory of the Parquet writer.
	rowGroupRows = 64 << 10
	// dictionaryBytes is the size of a column's dictionary in a row group from which on its values are
	// written plainly.
	dictionaryBytes = 1 << 20
)

// parquetWriter writes record batches as a Parquet file: one leaf for each column, small batches
// combined into row groups.
type parquetWriter struct {
	*parquet.Writer
	rows   int // in the present row group
	values []parquet.Value
}

func openParquet(to io.Writer, schema *arrow.Schema) (rowWriter, error) {
	description, err := arrowSchema(schema)
	if err != nil {
		return nil, err
	}
	options := []parquet.WriterOption{
		orderedSchema(schema), parquet.Compression(&parquet.Snappy), parquet.DictionaryMaxBytes(dictionaryBytes),
		parquet.KeyValueMetadata("ARROW:schema", description),
	}
	metadata := schema.Metadata()
	for i, key := range metadata.Keys() {
		options = append(options, parquet.KeyValueMetadata(key, metadata.Values()[i]))
	}
	return &parquetWriter{Writer: parquet.NewWriter(to, options...)}, nil
}

// arrowSchema is the schema as readers of Arrow look for it in a Parquet file: an IPC message in
// base64, which keeps what Parquet has no place for, such as the metadata of columns.
func arrowSchema(schema *arrow.Schema) (string, error) {
	const end = 8 // bytes: the mark at the end of a stream
	var stream bytes.Buffer
	if err := ipc.NewWriter(&stream, ipc.WithSchema(schema)).Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(stream.Bytes()[:stream.Len()-end]), nil
}

// orderedFields is a group whose fields stay in their order; the fields of a parquet.Group are sorted by name.
type orderedFields struct {
	parquet.Group
	names []string
}

func (g orderedFields) Fields() []parquet.Field {
	named := map[string]parquet.Field{}
	for _, field := range g.Group.Fields() {
		named[field.Name()] = field
	}
	ordered := make([]parquet.Field, len(g.names))
	for i, name := range g.names {
		ordered[i] = named[name]
	}
	return ordered
}

func orderedSchema(schema *arrow.Schema) *parquet.Schema {
	group := orderedFields{Group: parquet.Group{}}
	for _, field := range schema.Fields() {
		group.names = append(group.names, field.Name)
		group.Group[field.Name] = nodeOf(field)
	}
	return parquet.NewSchema("schema", group)
}

func nodeOf(field arrow.Field) parquet.Node {
	var node parquet.Node
	switch list, isList := field.Type.(*arrow.ListType); {
	case isList:
		node = parquet.List(nodeOf(list.ElemField()))
	case field.Type.ID() == arrow.BOOL:
		node = parquet.Leaf(parquet.BooleanType)
	default:
		node = parquet.Encoded(leafOf(field.Type), &parquet.RLEDictionary)
	}
	if field.Nullable {
		node = parquet.Optional(node)
	}
	return node
}

// leafOf is the Parquet type of an Arrow type: each type of package measure, and text for others.
func leafOf(kind arrow.DataType) parquet.Node {
	switch kind.ID() {
	case arrow.INT32:
		return parquet.Int(32)
	case arrow.UINT32:
		return parquet.Uint(32)
	case arrow.INT64:
		return parquet.Int(64)
	case arrow.UINT64:
		return parquet.Uint(64)
	case arrow.FLOAT64:
		return parquet.Leaf(parquet.DoubleType)
	case arrow.BINARY:
		return parquet.Leaf(parquet.ByteArrayType)
	case arrow.TIMESTAMP:
		if kind := kind.(*arrow.TimestampType); kind.Unit == arrow.Nanosecond {
			return parquet.TimestampAdjusted(parquet.Nanosecond, kind.TimeZone != "")
		}
	}
	return parquet.String()
}

// leafValues returns how to read a value that is not null of a column, as leafOf says.
func leafValues(column arrow.Array) func(i int) parquet.Value {
	switch a := column.(type) {
	case *array.Boolean:
		return func(i int) parquet.Value { return parquet.BooleanValue(a.Value(i)) }
	case *array.Int32:
		return func(i int) parquet.Value { return parquet.Int32Value(a.Value(i)) }
	case *array.Uint32:
		return func(i int) parquet.Value { return parquet.Int32Value(int32(a.Value(i))) }
	case *array.Int64:
		return func(i int) parquet.Value { return parquet.Int64Value(a.Value(i)) }
	case *array.Uint64:
		return func(i int) parquet.Value { return parquet.Int64Value(int64(a.Value(i))) }
	case *array.Float64:
		return func(i int) parquet.Value { return parquet.DoubleValue(a.Value(i)) }
	case *array.Binary:
		return func(i int) parquet.Value { return parquet.ByteArrayValue(a.Value(i)) }
	case *array.Timestamp:
		if a.DataType().(*arrow.TimestampType).Unit == arrow.Nanosecond {
			return func(i int) parquet.Value { return parquet.Int64Value(int64(a.Value(i))) }
		}
	}
	text := cellsOf(column).text
	return func(i int) parquet.Value { return parquet.ByteArrayValue(text(nil, i)) }
}

func (w *parquetWriter) Write(record arrow.RecordBatch) error {
	for from := int64(0); from < record.NumRows(); {
		to := min(record.NumRows(), from+int64(rowGroupRows-w.rows))
		piece := record.NewSlice(from, to)
		err := w.writeRows(piece)
		piece.Release()
		if err != nil {
			return err
		}
		from = to
	}
	return nil
}

func (w *parquetWriter) writeRows(record arrow.RecordBatch) error {
	for j, column := range w.ColumnWriters() {
		w.values = w.values[:0]
		w.appendColumn(record.Column(j), record.Schema().Field(j), j)
		if _, err := column.WriteRowValues(w.values); err != nil {
			return err
		}
	}
	if w.rows += int(record.NumRows()); w.rows < rowGroupRows {
		return nil
	}
	w.rows = 0
	return w.Flush()
}

// appendColumn appends the values of a column with their levels (the Parquet format's nested encoding): a
// repetition level of 1 continues the list of the row, a definition level counts what is present of an
// optional column, a list, and an optional element.
func (w *parquetWriter) appendColumn(column arrow.Array, field arrow.Field, j int) {
	present := 0
	if field.Nullable {
		present = 1
	}
	list, isList := column.(*array.List)
	if !isList {
		w.appendValues(column, leafValues(column), 0, column.Len(), nesting{definition: present, column: j})
		return
	}
	elements, value := list.ListValues(), leafValues(list.ListValues())
	around := nesting{repetition: 1, definition: present + 1, column: j}
	if field.Type.(*arrow.ListType).ElemField().Nullable {
		around.definition++
	}
	for i := range list.Len() {
		switch from, to := list.ValueOffsets(i); {
		case list.IsNull(i):
			w.values = append(w.values, parquet.NullValue().Level(0, 0, j))
		case from == to:
			w.values = append(w.values, parquet.NullValue().Level(0, present, j))
		default:
			w.appendValues(elements, value, int(from), int(to), around)
		}
	}
}

// nesting places a value that is present: further values of a row repeat at the level repetition, and a
// null has one level less than definition.
type nesting struct{ repetition, definition, column int }

// appendValues appends elements from to to; in a list, the first one begins a row.
func (w *parquetWriter) appendValues(column arrow.Array, value func(int) parquet.Value, from, to int, at nesting) {
	for i := from; i < to; i++ {
		repetition := at.repetition
		if i == from {
			repetition = 0
		}
		if column.IsNull(i) {
			w.values = append(w.values, parquet.NullValue().Level(repetition, at.definition-1, at.column))
		} else {
			w.values = append(w.values, value(i).Level(repetition, at.definition, at.column))
		}
	}
}
