package duckdb

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Record batches in frames: the number of bytes of the schema, which is only in the first,
// and its JSON; the number of rows; each column with its buffers and children, in order.
// Arrow's own format is not read: its reader trusts the numbers in the metadata, and
// allocates what a forged message says.

// fieldForm is a column or a child of one.
type fieldForm struct {
	Name      string      `json:"name,omitempty"`
	Type      arrow.Type  `json:"type"`
	Unit      int         `json:"unit,omitempty"`
	Zone      string      `json:"zone,omitempty"`
	Width     int32       `json:"width,omitempty"` // of fixed-size types
	Precision int32       `json:"precision,omitempty"`
	Scale     int32       `json:"scale,omitempty"`
	Children  []fieldForm `json:"children,omitempty"`
}

const (
	// rowsMost, depthMost and fieldsMost bound what the server reads.
	rowsMost   = 1 << 20
	depthMost  = 32
	fieldsMost = 4096
)

// flatTypes need nothing but their number.
var flatTypes = map[arrow.Type]arrow.DataType{
	arrow.NULL: arrow.Null, arrow.BOOL: arrow.FixedWidthTypes.Boolean,
	arrow.INT8: arrow.PrimitiveTypes.Int8, arrow.INT16: arrow.PrimitiveTypes.Int16, arrow.INT32: arrow.PrimitiveTypes.Int32, arrow.INT64: arrow.PrimitiveTypes.Int64,
	arrow.UINT8: arrow.PrimitiveTypes.Uint8, arrow.UINT16: arrow.PrimitiveTypes.Uint16, arrow.UINT32: arrow.PrimitiveTypes.Uint32, arrow.UINT64: arrow.PrimitiveTypes.Uint64,
	arrow.FLOAT32: arrow.PrimitiveTypes.Float32, arrow.FLOAT64: arrow.PrimitiveTypes.Float64,
	arrow.DATE32: arrow.FixedWidthTypes.Date32, arrow.DATE64: arrow.FixedWidthTypes.Date64,
	arrow.INTERVAL_MONTH_DAY_NANO: arrow.FixedWidthTypes.MonthDayNanoInterval,
	arrow.STRING:                  arrow.BinaryTypes.String, arrow.BINARY: arrow.BinaryTypes.Binary,
	arrow.LARGE_STRING: arrow.BinaryTypes.LargeString, arrow.LARGE_BINARY: arrow.BinaryTypes.LargeBinary,
}

var errForm = errors.New("a type of column that cannot be sent")

// formOf describes a type; errForm if it has to be sent as text.
func formOf(name string, t arrow.DataType) (fieldForm, error) {
	f := fieldForm{Name: name, Type: t.ID()}
	if flatTypes[f.Type] != nil {
		return f, nil
	}
	var children []arrow.Field
	switch t := t.(type) {
	case *arrow.TimestampType:
		f.Unit, f.Zone = int(t.Unit), t.TimeZone
	case *arrow.Time32Type:
		f.Unit = int(t.Unit)
	case *arrow.Time64Type:
		f.Unit = int(t.Unit)
	case *arrow.DurationType:
		f.Unit = int(t.Unit)
	case *arrow.Decimal128Type:
		f.Precision, f.Scale = t.Precision, t.Scale
	case *arrow.Decimal256Type:
		f.Precision, f.Scale = t.Precision, t.Scale
	case *arrow.FixedSizeBinaryType:
		f.Width = int32(t.ByteWidth)
	case *arrow.FixedSizeListType:
		f.Width, children = t.Len(), []arrow.Field{t.ElemField()}
	case *arrow.ListType:
		children = []arrow.Field{t.ElemField()}
	case *arrow.LargeListType:
		children = []arrow.Field{t.ElemField()}
	case *arrow.StructType:
		children = t.Fields()
	case *arrow.MapType:
		children = []arrow.Field{t.KeyField(), t.ItemField()}
	default:
		return f, errForm
	}
	for _, child := range children {
		c, err := formOf(child.Name, child.Type)
		if err != nil {
			return f, err
		}
		f.Children = append(f.Children, c)
	}
	return f, nil
}

// dataType is the type that is described. most counts down the fields that may follow.
func (f *fieldForm) dataType(depth int, most *int) (arrow.DataType, error) {
	bad := fmt.Errorf("%w: column type %v", errFrame, f.Type)
	if *most--; *most < 0 || depth > depthMost || f.Unit < 0 || f.Unit > int(arrow.Nanosecond) || f.Width < 0 || f.Width > frameBytes {
		return nil, bad
	}
	if t := flatTypes[f.Type]; t != nil {
		return t, nil
	}
	children := make([]arrow.Field, len(f.Children))
	for i := range f.Children {
		t, err := f.Children[i].dataType(depth+1, most)
		if err != nil {
			return nil, err
		}
		children[i] = arrow.Field{Name: f.Children[i].Name, Type: t, Nullable: true}
	}
	unit := arrow.TimeUnit(f.Unit)
	switch want := map[arrow.Type]int{arrow.LIST: 1, arrow.LARGE_LIST: 1, arrow.FIXED_SIZE_LIST: 1, arrow.MAP: 2}[f.Type]; {
	case want != len(children) && f.Type != arrow.STRUCT:
	case f.Type == arrow.TIMESTAMP:
		return &arrow.TimestampType{Unit: unit, TimeZone: f.Zone}, nil
	case f.Type == arrow.TIME32 && unit <= arrow.Millisecond:
		return &arrow.Time32Type{Unit: unit}, nil
	case f.Type == arrow.TIME64 && unit > arrow.Millisecond:
		return &arrow.Time64Type{Unit: unit}, nil
	case f.Type == arrow.DURATION:
		return &arrow.DurationType{Unit: unit}, nil
	case f.Type == arrow.DECIMAL128 && f.Precision >= 1 && f.Precision <= 38:
		return &arrow.Decimal128Type{Precision: f.Precision, Scale: min(max(f.Scale, 0), f.Precision)}, nil
	case f.Type == arrow.DECIMAL256 && f.Precision >= 1 && f.Precision <= 76:
		return &arrow.Decimal256Type{Precision: f.Precision, Scale: min(max(f.Scale, 0), f.Precision)}, nil
	case f.Type == arrow.FIXED_SIZE_BINARY && f.Width > 0:
		return &arrow.FixedSizeBinaryType{ByteWidth: int(f.Width)}, nil
	case f.Type == arrow.FIXED_SIZE_LIST && f.Width > 0:
		return arrow.FixedSizeListOfField(f.Width, children[0]), nil
	case f.Type == arrow.LIST:
		return arrow.ListOfField(children[0]), nil
	case f.Type == arrow.LARGE_LIST:
		return arrow.LargeListOfField(children[0]), nil
	case f.Type == arrow.STRUCT:
		return arrow.StructOf(children...), nil
	case f.Type == arrow.MAP:
		return arrow.MapOf(children[0].Type, children[1].Type), nil
	}
	return nil, bad
}

// recordWriter turns record batches of one schema into the contents of frames.
type recordWriter struct {
	described bool
	buffer    []byte
}

// encode returns a slice that is valid until the next call.
func (w *recordWriter) encode(r arrow.RecordBatch) ([]byte, error) {
	columns := make([]arrow.Array, r.NumCols())
	forms := make([]fieldForm, r.NumCols())
	for i, column := range r.Columns() {
		var err error
		if columns[i], err = plainColumn(column); err != nil {
			return nil, err
		}
		defer columns[i].Release()
		if forms[i], err = formOf(r.ColumnName(i), columns[i].DataType()); err != nil {
			return nil, err
		}
	}
	text := []byte{}
	if !w.described {
		var err error
		if text, err = json.Marshal(forms); err != nil {
			return nil, err
		}
		w.described = true
	}
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer[:0], uint32(len(text)))
	w.buffer = append(w.buffer, text...)
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, uint32(r.NumRows()))
	for _, column := range columns {
		w.column(column.Data())
	}
	return w.buffer, nil
}

// plainColumn is a column without an offset, of a type that can be described: of others
// the text. The caller releases it.
func plainColumn(column arrow.Array) (arrow.Array, error) {
	if e, is := column.(array.ExtensionArray); is {
		column = e.Storage()
	}
	if _, err := formOf("", column.DataType()); err != nil {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		for i := range column.Len() {
			if column.IsNull(i) {
				b.AppendNull()
			} else {
				b.Append(column.ValueStr(i))
			}
		}
		return b.NewArray(), nil
	}
	if column.Data().Offset() != 0 {
		return array.Concatenate([]arrow.Array{column}, memory.DefaultAllocator)
	}
	column.Retain()
	return column, nil
}

// column appends an array: whether it has nulls, their bitmap, the buffers, the children.
func (w *recordWriter) column(d arrow.ArrayData) {
	n, buffers := d.Len(), d.Buffers()
	w.buffer = binary.LittleEndian.AppendUint32(w.buffer, uint32(n))
	bytes := func(i, size int) {
		var content []byte
		if i < len(buffers) && buffers[i] != nil {
			content = buffers[i].Bytes()[:min(size, buffers[i].Len())]
		}
		w.buffer = binary.LittleEndian.AppendUint32(w.buffer, uint32(len(content)))
		w.buffer = append(w.buffer, content...)
	}
	nulls := 0
	if d.NullN() != 0 {
		nulls = (n + 7) / 8
	}
	bytes(0, nulls)
	shape := shapeOf(d.DataType())
	switch {
	case shape.offsets > 0:
		end := 0
		if n > 0 {
			end = int(offsetAt(buffers[1].Bytes(), shape.offsets, n))
		}
		size := 0
		if n > 0 {
			size = (n + 1) * shape.offsets
		}
		bytes(1, size)
		if shape.text {
			bytes(2, end)
		}
	case shape.bits > 0:
		bytes(1, (n*shape.bits+7)/8)
	}
	for _, child := range d.Children() {
		w.column(child)
	}
}

// columnShape is what an array of a type consists of.
type columnShape struct {
	offsets  int // bytes of each
	text     bool
	bits     int // of each value of fixed width
	children int
	each     int // values of a fixed-size list
}

func shapeOf(t arrow.DataType) columnShape {
	switch t := t.(type) {
	case *arrow.StringType, *arrow.BinaryType:
		return columnShape{offsets: 4, text: true}
	case *arrow.LargeStringType, *arrow.LargeBinaryType:
		return columnShape{offsets: 8, text: true}
	case *arrow.ListType, *arrow.MapType:
		return columnShape{offsets: 4, children: 1}
	case *arrow.LargeListType:
		return columnShape{offsets: 8, children: 1}
	case *arrow.FixedSizeListType:
		return columnShape{children: 1, each: int(t.Len())}
	case *arrow.StructType:
		return columnShape{children: t.NumFields(), each: 1}
	case arrow.FixedWidthDataType:
		return columnShape{bits: t.BitWidth()}
	}
	return columnShape{}
}

func offsetAt(b []byte, width, i int) int64 {
	if width == 4 {
		return int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return int64(binary.LittleEndian.Uint64(b[8*i:]))
}

// recordReader reads record batches from the contents of frames, which next returns;
// io.EOF is the end.
type recordReader struct {
	next   func() ([]byte, error)
	schema *arrow.Schema
	rest   []byte
}

// read returns a record batch, which the caller releases, or io.EOF.
func (r *recordReader) read() (arrow.RecordBatch, error) {
	var err error
	if r.rest, err = r.next(); err != nil {
		return nil, err
	}
	text, err := r.take()
	if err != nil {
		return nil, err
	}
	if err := r.describe(text); err != nil {
		return nil, err
	}
	rows, err := r.number()
	if err != nil {
		return nil, err
	}
	if rows > rowsMost {
		return nil, fmt.Errorf("%w: %d rows", errFrame, rows)
	}
	columns := make([]arrow.Array, r.schema.NumFields())
	defer func() {
		for _, column := range columns {
			if column != nil {
				column.Release()
			}
		}
	}()
	for i, field := range r.schema.Fields() {
		data, err := r.column(field.Type)
		if err != nil {
			return nil, err
		}
		columns[i] = array.MakeFromData(data)
		data.Release()
		if columns[i].Len() != rows {
			return nil, fmt.Errorf("%w: a column has %d rows of %d", errFrame, columns[i].Len(), rows)
		}
	}
	if len(r.rest) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the columns", errFrame, len(r.rest))
	}
	return array.NewRecordBatch(r.schema, columns, int64(rows)), nil
}

// describe reads the schema, which the first frame has and no other.
func (r *recordReader) describe(text []byte) error {
	if (r.schema == nil) != (len(text) > 0) {
		return fmt.Errorf("%w: a schema of %d bytes", errFrame, len(text))
	}
	if len(text) == 0 {
		return nil
	}
	var forms []fieldForm
	if err := json.Unmarshal(text, &forms); err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	most, fields := fieldsMost, []arrow.Field{}
	for i := range forms {
		t, err := forms[i].dataType(0, &most)
		if err != nil {
			return err
		}
		fields = append(fields, arrow.Field{Name: forms[i].Name, Type: t, Nullable: true})
	}
	r.schema = arrow.NewSchema(fields, nil)
	return nil
}

// number reads one that is not above the bytes of a frame.
func (r *recordReader) number() (int, error) {
	if len(r.rest) < 4 {
		return 0, io.ErrUnexpectedEOF
	}
	n := binary.LittleEndian.Uint32(r.rest)
	r.rest = r.rest[4:]
	if n > 8*frameBytes {
		return 0, fmt.Errorf("%w: number %d", errFrame, n)
	}
	return int(n), nil
}

// take reads a length and so many bytes.
func (r *recordReader) take() ([]byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	if n > len(r.rest) {
		return nil, fmt.Errorf("%w: %d bytes of %d", errFrame, n, len(r.rest))
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b, nil
}

// column reads an array, and checks that its parts fit together.
func (r *recordReader) column(t arrow.DataType) (arrow.ArrayData, error) {
	n, err := r.number()
	if err != nil {
		return nil, err
	}
	nulls, err := r.take()
	if err != nil {
		return nil, err
	}
	if len(nulls) > 0 && len(nulls) < (n+7)/8 {
		return nil, fmt.Errorf("%w: nulls of %d values in %d bytes", errFrame, n, len(nulls))
	}
	shape, last := shapeOf(t), int64(n)
	buffers := []*memory.Buffer{nil}
	if len(nulls) > 0 && t.ID() != arrow.NULL {
		buffers[0] = memory.NewBufferBytes(nulls)
	}
	if shape.offsets > 0 || shape.bits > 0 {
		values, err := r.take()
		if err != nil {
			return nil, err
		}
		values = aligned(values)
		if last, err = shape.check(values, n); err != nil {
			return nil, err
		}
		buffers = append(buffers, memory.NewBufferBytes(values))
	}
	if shape.text {
		text, err := r.take()
		if err != nil {
			return nil, err
		}
		if last > int64(len(text)) {
			return nil, fmt.Errorf("%w: %d bytes of text of %d", errFrame, len(text), last)
		}
		buffers = append(buffers, memory.NewBufferBytes(text))
	}
	if shape.each > 0 {
		last = int64(n) * int64(shape.each)
	}
	children, err := r.children(t, shape, last)
	if err != nil {
		return nil, err
	}
	count := array.UnknownNullCount
	if t.ID() == arrow.NULL {
		count = n
	} else if buffers[0] == nil {
		count = 0
	}
	return array.NewData(t, n, buffers, children, count, 0), nil
}

// children reads the child arrays of an array, each with at least so many values.
func (r *recordReader) children(t arrow.DataType, shape columnShape, least int64) ([]arrow.ArrayData, error) {
	if shape.children == 0 {
		return nil, nil
	}
	var all []arrow.ArrayData
	for _, field := range t.(arrow.NestedType).Fields() {
		child, err := r.column(field.Type)
		if err != nil {
			return nil, err
		}
		if int64(child.Len()) < least {
			return nil, fmt.Errorf("%w: %d values of %d", errFrame, child.Len(), least)
		}
		all = append(all, child)
	}
	return all, nil
}

// check returns the last offset of values, or an error if there are too few or they do
// not rise.
func (s columnShape) check(values []byte, n int) (int64, error) {
	if s.bits > 0 {
		if int64(len(values)) < (int64(n)*int64(s.bits)+7)/8 {
			return 0, fmt.Errorf("%w: %d values in %d bytes", errFrame, n, len(values))
		}
		return 0, nil
	}
	if n == 0 {
		return 0, nil
	}
	if len(values) < (n+1)*s.offsets {
		return 0, fmt.Errorf("%w: %d offsets in %d bytes", errFrame, n, len(values))
	}
	if offsetAt(values, s.offsets, 0) < 0 ||
		s.offsets == 4 && !slices.IsSorted(arrow.Int32Traits.CastFromBytes(values)[:n+1]) ||
		s.offsets == 8 && !slices.IsSorted(arrow.Int64Traits.CastFromBytes(values)[:n+1]) {
		return 0, fmt.Errorf("%w: offsets that do not rise", errFrame)
	}
	return offsetAt(values, s.offsets, n), nil
}

// aligned returns values where they may be read as numbers of any width.
func aligned(values []byte) []byte {
	if uintptr(unsafe.Pointer(unsafe.SliceData(values)))%8 == 0 {
		return values
	}
	return slices.Clone(values)
}
