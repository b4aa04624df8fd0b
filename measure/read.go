package measure

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// ErrColumns marks a record without the columns of a schema.
var ErrColumns = errors.New("columns")

// Columns are the columns of a schema by name, each of its type. A record of the archive may have
// others, in another order.
func Columns(record arrow.RecordBatch, schema *Schema) (map[string]arrow.Array, error) {
	columns := map[string]arrow.Array{}
	for i, field := range record.Schema().Fields() {
		columns[field.Name] = record.Column(i)
	}
	for _, want := range schema.Fields {
		column := columns[want.Name]
		if column == nil {
			return nil, fmt.Errorf("%w: no column %s", ErrColumns, want.Name)
		}
		if !arrow.TypeEqual(column.DataType(), ArrowType(want.Type)) {
			return nil, fmt.Errorf("%w: column %s is %s", ErrColumns, want.Name, column.DataType())
		}
	}
	return columns, nil
}

// ValueAt reads one value of a column; false if the type is not one of Value's.
func ValueAt(column arrow.Array, row int) (Value, bool) {
	null := column.IsNull(row)
	value, ok := Value{}, true
	switch c := column.(type) {
	case *array.Boolean:
		value = BoolValue(!null && c.Value(row))
	case *array.Int32:
		value = Int32Value(c.Value(row))
	case *array.Uint32:
		value = Uint32Value(c.Value(row))
	case *array.Int64:
		value = Int64Value(c.Value(row))
	case *array.Uint64:
		value = Uint64Value(c.Value(row))
	case *array.Float64:
		value = Float64Value(c.Value(row))
	case *array.String:
		value = StringValue(c.Value(row))
	case *array.Binary:
		value = BinaryValue(c.Value(row))
	case *array.Timestamp:
		value = Value{kind: Time, number: uint64(c.Value(row))}
		ok = c.DataType().(*arrow.TimestampType).Unit == arrow.Nanosecond
	case *array.List:
		value, ok = listAt(c, row)
	default:
		ok = false
	}
	if null {
		value = Value{}
	}
	return value, ok
}

func listAt(column *array.List, row int) (Value, bool) {
	start, end := column.ValueOffsets(row)
	switch values := column.ListValues().(type) {
	case *array.Int64:
		// One bit pattern, two types: the list is read through the sample's.
		bytes := arrow.Int64Traits.CastToBytes(values.Int64Values()[start:end])
		return Value{kind: Int64List, list: arrow.Uint64Traits.CastFromBytes(bytes)}, values.NullN() == 0
	case *array.Uint64:
		return Value{kind: Uint64List, list: values.Uint64Values()[start:end]}, values.NullN() == 0
	}
	return Value{}, false
}
