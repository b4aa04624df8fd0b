package measure

import (
	"math"
	"time"
)

// Value is one value of a sample. The zero Value is null. It holds any Type
// without an allocation.
type Value struct {
	kind   Type
	number uint64
	text   string
	bytes  []byte
	list   []uint64 // of Int64List too, by their bits
}

// Sample is one value for each field of a schema, in its order. It may be used
// again after Inject has returned.
type Sample []Value

// Values of each type.
func BoolValue(v bool) Value {
	if v {
		return Value{kind: Bool, number: 1}
	}
	return Value{kind: Bool}
}
func Int32Value(v int32) Value            { return Value{kind: Int32, number: uint64(v)} }
func Uint32Value(v uint32) Value          { return Value{kind: Uint32, number: uint64(v)} }
func Int64Value(v int64) Value            { return Value{kind: Int64, number: uint64(v)} }
func Uint64Value(v uint64) Value          { return Value{kind: Uint64, number: v} }
func Float64Value(v float64) Value        { return Value{kind: Float64, number: math.Float64bits(v)} }
func StringValue(v string) Value          { return Value{kind: String, text: v} }
func BinaryValue(v []byte) Value          { return Value{kind: Binary, bytes: v} }
func TimeValue(v time.Time) Value         { return Value{kind: Time, number: uint64(v.UnixNano())} }
func DurationValue(v time.Duration) Value { return Int64Value(int64(v)) }
func Uint64ListValue(v []uint64) Value    { return Value{kind: Uint64List, list: v} }

// Int64ListValue copies, since the two lists differ in type.
func Int64ListValue(v []int64) Value {
	list := make([]uint64, len(v))
	for i, n := range v {
		list[i] = uint64(n)
	}
	return Value{kind: Int64List, list: list}
}

// IsNull reports whether there is no value.
func (v Value) IsNull() bool { return v.kind == 0 }

// Type of the value; 0 for null.
func (v Value) Type() Type { return v.kind }

// What is held, read as one of the types; only the reading of v.Type() means
// something.
func (v Value) Bool() bool       { return v.number != 0 }
func (v Value) Int64() int64     { return int64(v.number) }
func (v Value) Uint64() uint64   { return v.number }
func (v Value) Float64() float64 { return math.Float64frombits(v.number) }
func (v Value) Text() string     { return v.text }
func (v Value) Bytes() []byte    { return v.bytes }
func (v Value) Time() time.Time  { return time.Unix(0, int64(v.number)).UTC() }
func (v Value) List() []uint64   { return v.list }

// Number is the value of any numeric type as a float64, and whether it is one.
func (v Value) Number() (float64, bool) {
	switch v.kind {
	case Int32, Int64, Time:
		return float64(int64(v.number)), true
	case Uint32, Uint64, Bool:
		return float64(v.number), true
	case Float64:
		return v.Float64(), true
	}
	return 0, false
}
