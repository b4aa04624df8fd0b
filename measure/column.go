package measure

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// WidenColumn is a column in a type that holds all its values, as Widen chooses it. The caller
// releases it.
func WidenColumn(column arrow.Array, to Type) arrow.Array {
	b := array.NewBuilder(memory.DefaultAllocator, ArrowType(to))
	defer b.Release()
	for i := range column.Len() {
		var v int64
		switch c := column.(type) {
		case *array.Int32:
			v = int64(c.Value(i))
		case *array.Uint32:
			v = int64(c.Value(i))
		}
		switch b := b.(type) {
		case *array.Int64Builder:
			b.Append(v)
		case *array.Uint64Builder:
			b.Append(uint64(v))
		case *array.Float64Builder:
			b.Append(float64(v))
		}
	}
	values := b.NewArray()
	if column.NullN() == 0 {
		return values
	}
	defer values.Release()
	nulls := make([]byte, (column.Len()+7)/8)
	for i := range column.Len() {
		if column.IsValid(i) {
			nulls[i/8] |= 1 << (i % 8)
		}
	}
	buffers := []*memory.Buffer{memory.NewBufferBytes(nulls), values.Data().Buffers()[1]}
	return array.MakeFromData(array.NewData(values.DataType(), column.Len(), buffers, nil, column.NullN(), 0))
}

// TextOf is the buffer in which the offsets of a column of strings count; nil when all are
// empty.
func TextOf(column arrow.Array) []byte {
	if text := column.Data().Buffers()[2]; text != nil {
		return text.Bytes()
	}
	return nil
}

// Width is the size of a value of a type of fixed width, bytes.
func (t Type) Width() int {
	if t == Int32 || t == Uint32 {
		return 4
	}
	return 8
}
