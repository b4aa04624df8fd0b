package web

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	decimals "github.com/shopspring/decimal"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure"
)

// cells reads one column of a record batch, as a value for the API and as text for
// CSV and for comparing. Only rows that are not null are read.
type cells struct {
	arrow.Array
	value func(i int) *pillionv1.Value
	text  func(to []byte, i int) []byte
	// isText is set unless the values are numbers, times or the like.
	isText bool
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
		}, func(to []byte, i int) []byte { return strconv.AppendBool(to, a.Value(i)) }, false}
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
	case *array.Decimal128:
		return decimal(a, func(i int) *big.Int { return a.Value(i).BigInt() })
	case *array.Decimal256:
		return decimal(a, func(i int) *big.Int { return a.Value(i).BigInt() })
	case *array.Binary:
		return blob(a, a.Value)
	case *array.LargeBinary:
		return blob(a, a.Value)
	case *array.Timestamp:
		unit := int64(a.DataType().(*arrow.TimestampType).Unit.Multiplier())
		return moment(a, int64(time.Second)/unit, func(i int) int64 { return int64(a.Value(i)) })
	case *array.Date32:
		return moment(a, 1, func(i int) int64 { return int64(a.Value(i)) * 86400 })
	case *array.List:
		if values, ok := numbersOf(a.ListValues()); ok && a.ListValues().NullN() == 0 {
			return list(a, values)
		}
	}
	if arrow.IsNested(a.DataType().ID()) {
		form := jsonText(a)
		return text(a, func(i int) string { return string(form(nil, i)) })
	}
	return text(a, a.ValueStr)
}

func signed(a arrow.Array, at func(int) int64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Int{Int: at(i)}}
	}, func(to []byte, i int) []byte { return strconv.AppendInt(to, at(i), 10) }, false}
}

func unsigned(a arrow.Array, at func(int) uint64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Uint{Uint: at(i)}}
	}, func(to []byte, i int) []byte { return strconv.AppendUint(to, at(i), 10) }, false}
}

func float(a arrow.Array, at func(int) float64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Float{Float: at(i)}}
	}, func(to []byte, i int) []byte { return strconv.AppendFloat(to, at(i), 'g', -1, 64) }, false}
}

func text(a arrow.Array, at func(int) string) cells {
	return cells{a, func(i int) *pillionv1.Value { return textValue(at(i)) }, func(to []byte, i int) []byte { return append(to, at(i)...) }, true}
}

func textValue(s string) *pillionv1.Value {
	return &pillionv1.Value{Kind: &pillionv1.Value_Text{Text: validText(s)}}
}

func blob(a arrow.Array, at func(int) []byte) cells {
	return cells{a, func(i int) *pillionv1.Value {
		return &pillionv1.Value{Kind: &pillionv1.Value_Binary{Binary: append([]byte{}, at(i)...)}}
	}, func(to []byte, i int) []byte { return base64.StdEncoding.AppendEncode(to, at(i)) }, false}
}

// decimal also holds integers of 128 bits, such as sums. What has a fraction or is outside of 64
// bits is text with all digits.
func decimal(a arrow.Array, at func(int) *big.Int) cells {
	scale := a.DataType().(arrow.DecimalType).GetScale()
	form := func(i int) string { return decimals.NewFromBigInt(at(i), -scale).StringFixed(max(scale, 0)) }
	return cells{a, func(i int) *pillionv1.Value {
		switch v := at(i); {
		case scale == 0 && v.IsInt64():
			return &pillionv1.Value{Kind: &pillionv1.Value_Int{Int: v.Int64()}}
		case scale == 0 && v.IsUint64():
			return &pillionv1.Value{Kind: &pillionv1.Value_Uint{Uint: v.Uint64()}}
		default:
			return textValue(form(i))
		}
	}, func(to []byte, i int) []byte { return append(to, form(i)...) }, false}
}

// moment is a time in parts of a second. What nanoseconds of 64 bits cannot express is text.
func moment(a arrow.Array, perSecond int64, at func(int) int64) cells {
	factor, infinite := int64(time.Second)/perSecond, int64(math.MaxInt64)
	if perSecond == 1 {
		infinite = math.MaxInt32 * 86400 // of a date
	}
	form := func(to []byte, n int64) []byte {
		switch {
		case factor > 1 && n >= infinite:
			return append(to, "infinity"...)
		case factor > 1 && n <= -infinite:
			return append(to, "-infinity"...)
		}
		return time.Unix(n/perSecond, n%perSecond*factor).UTC().AppendFormat(to, time.RFC3339Nano)
	}
	return cells{a, func(i int) *pillionv1.Value {
		n := at(i)
		if n > math.MaxInt64/factor || n < math.MinInt64/factor {
			return textValue(string(form(nil, n)))
		}
		return &pillionv1.Value{Kind: &pillionv1.Value_Time{Time: n * factor}}
	}, func(to []byte, i int) []byte { return form(to, at(i)) }, false}
}

func list(a *array.List, at func(int) int64) cells {
	return cells{a, func(i int) *pillionv1.Value {
		from, to := a.ValueOffsets(i)
		values := make([]int64, 0, to-from)
		for j := from; j < to; j++ {
			values = append(values, at(int(j)))
		}
		return &pillionv1.Value{Kind: &pillionv1.Value_List{List: &pillionv1.List{Values: values}}}
	}, jsonText(a), false}
}

// jsonText appends values as JSON, numbers with all digits.
func jsonText(a arrow.Array) func(to []byte, i int) []byte {
	var form func(to []byte, i int) []byte
	switch a := a.(type) {
	case array.ListLike:
		element := jsonText(a.ListValues())
		form = func(to []byte, i int) []byte {
			from, end := a.ValueOffsets(i)
			for j := from; j < end; j++ {
				to = element(append(to, "[,"[min(j-from, 1)]), int(j))
			}
			if from == end {
				to = append(to, '[')
			}
			return append(to, ']')
		}
	case *array.Struct:
		fields := make([]func([]byte, int) []byte, a.NumField())
		for k := range fields {
			fields[k] = jsonText(a.Field(k))
		}
		form = func(to []byte, i int) []byte {
			for k, field := range fields {
				name := appendText(append(to, "{,"[min(k, 1)]), a.DataType().(*arrow.StructType).Field(k).Name)
				to = field(append(name, ':'), i)
			}
			return append(to, '}') // a struct has fields
		}
	default:
		form = plainJSON(a)
	}
	return func(to []byte, i int) []byte {
		if (cells{Array: a}).IsNull(i) {
			return append(to, "null"...)
		}
		return form(to, i)
	}
}

// plainJSON is jsonText for what is neither a list nor a struct.
func plainJSON(a arrow.Array) func(to []byte, i int) []byte {
	kind := a.DataType().ID()
	if arrow.IsNested(kind) {
		return func(to []byte, i int) []byte { return append(to, a.ValueStr(i)...) }
	}
	column, isFloat := cellsOf(a), arrow.IsFloating(kind)
	isNumber := isFloat || arrow.IsInteger(kind) || arrow.IsDecimal(kind) || kind == arrow.BOOL
	return func(to []byte, i int) []byte {
		switch {
		case !isNumber:
			return appendText(to, string(column.text(nil, i)))
		case isFloat && math.IsInf(math.Abs(column.value(i).GetFloat()), 0), isFloat && math.IsNaN(column.value(i).GetFloat()):
			return append(to, "null"...)
		}
		return column.text(to, i)
	}
}

// appendText appends a text of JSON.
func appendText(to []byte, s string) []byte {
	quoted, _ := json.Marshal(s)
	return append(to, quoted...)
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
