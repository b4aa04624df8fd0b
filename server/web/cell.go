package web

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
)

// cells reads one column of a record batch, as a value for the API and as text for
// CSV and for comparing. Only rows that are not null are read.
type cells struct {
	arrow.Array
	value func(i int) *pillionv1.Value
	text  func(to []byte, i int) []byte
}

// IsNull also handles columns of type null.
func (c cells) IsNull(i int) bool { return c.Array.DataType().ID() == arrow.NULL || c.Array.IsNull(i) }

// cellsOf handles every type of package measure and the most common other ones that
// queries return. The rest become Arrow's text.
func cellsOf(a arrow.Array) cells {
	switch a := a.(type) {
	case *array.Boolean:
		return cells{a, func(i int) *pillionv1.Value {
			return &pillionv1.Value{Kind: &pillionv1.Value_Bool{Bool: a.Value(i)}}
		}, func(to []byte, i int) []byte { return strconv.AppendBool(to, a.Value(i)) }}
	case *array.Int8:
		return signed(a, func(i int) int64 { return int64(a.Value(i)) })
	case *array.Int16:
		return signed(a, func(i int) int64 { return int64(a.Value(i)) })
	case *array.Int32:
		return signed(a, func(i int) int64 { return int64(a.Value(i)) })
	case *array.Int64:
		return signed(a, a.Value)
	case *array.Uint8:
		return unsigned(a, func(i int) uint64 { return uint64(a.Value(i)) })
	case *array.Uint16:
		return unsigned(a, func(i int) uint64 { return uint64(a.Value(i)) })
	case *array.Uint32:
		return unsigned(a, func(i int) uint64 { return uint64(a.Value(i)) })
	case *array.Uint64:
		return unsigned(a, a.Value)
	case *array.Float32:
		return float(a, func(i int) float64 { return float64(a.Value(i)) })
	case *array.Float64:
		return float(a, a.Value)
	case *array.String:
		return text(a, a.Value)
	case *array.LargeString:
		return text(a, a.Value)
	case *array.StringView:
		return text(a, a.Value)
	case *array.Binary:
		return blob(a, a.Value)
	case *array.LargeBinary:
		return blob(a, a.Value)
	case *array.Timestamp:
		unit := int64(a.DataType().(*arrow.TimestampType).Unit.Multiplier())
		return moment(a, func(i int) int64 { return int64(a.Value(i)) * unit })
	case *array.Date32:
		return moment(a, func(i int) int64 { return a.Value(i).ToTime().UnixNano() })
	case *array.List:
		if values, ok := numbersOf(a.ListValues()); ok {
			return list(a, values)
		}
	}
	return text(a, a.ValueStr)
}

func signed(a arrow.Array, at func(int) int64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Int{Int: at(i)}}
	}, func(to []byte, i int) []byte { return strconv.AppendInt(to, at(i), 10) }}
}

func unsigned(a arrow.Array, at func(int) uint64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Uint{Uint: at(i)}}
	}, func(to []byte, i int) []byte { return strconv.AppendUint(to, at(i), 10) }}
}

func float(a arrow.Array, at func(int) float64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Float{Float: at(i)}}
	}, func(to []byte, i int) []byte { return strconv.AppendFloat(to, at(i), 'g', -1, 64) }}
}

func text(a arrow.Array, at func(int) string) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Text{Text: validText(at(i))}}
	}, func(to []byte, i int) []byte { return append(to, at(i)...) }}
}

func blob(a arrow.Array, at func(int) []byte) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Binary{Binary: append([]byte{}, at(i)...)}}
	}, func(to []byte, i int) []byte { return base64.StdEncoding.AppendEncode(to, at(i)) }}
}

func moment(a arrow.Array, at func(int) int64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Time{Time: at(i)}}
	}, func(to []byte, i int) []byte { return time.Unix(0, at(i)).UTC().AppendFormat(to, time.RFC3339Nano) }}
}

func list(a *array.List, at func(int) int64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		from, to := a.ValueOffsets(i)
		values := make([]int64, 0, to-from)
		for j := from; j < to; j++ {
			values = append(values, at(int(j)))
		}
		return &pillionv1.Value{Kind: &pillionv1.Value_List{List: &pillionv1.List{Values: values}}}
	}, func(text []byte, i int) []byte {
		from, to := a.ValueOffsets(i)
		text = append(text, '[')
		for j := from; j < to; j++ {
			if j > from {
				text = append(text, ',')
			}
			text = strconv.AppendInt(text, at(int(j)), 10)
		}
		return append(text, ']')
	}}
}

func numbersOf(a arrow.Array) (func(int) int64, bool) {
	switch a := a.(type) {
	case *array.Int64:
		return a.Value, true
	case *array.Uint64:
		return func(i int) int64 { return int64(a.Value(i)) }, true
	}
	return nil, false
}

// columnOf describes a column of an answer.
func columnOf(f arrow.Field) *pillionv1.Column {
	return &pillionv1.Column{Name: f.Name, Type: typeName(f.Type)}
}

func typeName(t arrow.DataType) string {
	switch t.ID() {
	case arrow.TIMESTAMP:
		return measure.Time.String()
	case arrow.STRING, arrow.LARGE_STRING:
		return measure.String.String()
	case arrow.BOOL, arrow.INT32, arrow.UINT32, arrow.INT64, arrow.UINT64, arrow.FLOAT64, arrow.BINARY:
		return t.Name() // otherwise the same name as in package measure
	case arrow.LIST:
		if element := t.(*arrow.ListType).Elem().ID(); element == arrow.INT64 || element == arrow.UINT64 {
			return typeName(t.(*arrow.ListType).Elem()) + "[]"
		}
	}
	return t.String()
}
