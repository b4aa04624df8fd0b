package omsp

import (
	"math"
	"slices"
)

// Value of one field. Its memory belongs to the Reader: it is valid until the next tuple.
type Value struct {
	Type Type
	// bits hold integers, guid, bool (0 or 1) and the IEEE form of a double.
	bits uint64
	// bytes hold strings and blobs, in the Reader's buffer or in own.
	bytes, own []byte
	// list holds the elements of a vector, each as bits does.
	list []uint64
}

// Int is the value of an int32, int64.
func (v *Value) Int() int64 { return int64(v.bits) }

// Uint is the value of a uint32, uint64 or guid.
func (v *Value) Uint() uint64 { return v.bits }

// Double is the value of a double.
func (v *Value) Double() float64 { return math.Float64frombits(v.bits) }

// Bool is the value of a bool.
func (v *Value) Bool() bool { return v.bits != 0 }

// Bytes are the content of a string (as sent, not necessarily UTF-8) or a blob.
func (v *Value) Bytes() []byte { return v.bytes }

// Elements are the elements of a vector: integers, bool as 0 or 1, double in IEEE form.
func (v *Value) Elements() []uint64 { return v.list }

// SetInt makes it an int32 or int64.
func (v *Value) SetInt(t Type, n int64) { v.Type, v.bits = t, uint64(n) }

// SetUint makes it a uint32, uint64 or guid.
func (v *Value) SetUint(t Type, n uint64) { v.Type, v.bits = t, n }

// SetDouble makes it a double.
func (v *Value) SetDouble(x float64) { v.Type, v.bits = Double, math.Float64bits(x) }

// SetBool makes it a bool.
func (v *Value) SetBool(b bool) { v.Type, v.bits = Bool, truth(b) }

// SetString makes it a string.
func (v *Value) SetString(s string) {
	v.own = append(v.own[:0], s...)
	v.Type, v.bytes = String, v.own
}

// SetBlob makes it a blob.
func (v *Value) SetBlob(b []byte) {
	v.own = append(v.own[:0], b...)
	v.Type, v.bytes = Blob, v.own
}

// SetElements makes it a vector; elements as Elements returns them.
func (v *Value) SetElements(t Type, elements []uint64) {
	v.Type, v.list = t, append(v.list[:0], elements...)
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Equal reports whether two values are the same; NaN is equal to NaN.
func (v *Value) Equal(other *Value) bool {
	switch {
	case v.Type != other.Type:
		return false
	case v.Type.IsVector():
		return slices.EqualFunc(v.list, other.list, func(a, b uint64) bool { return sameBits(v.Type.Element(), a, b) })
	case v.Type == String || v.Type == Blob:
		return slices.Equal(v.bytes, other.bytes)
	}
	return sameBits(v.Type, v.bits, other.bits)
}

func sameBits(t Type, a, b uint64) bool {
	if t == Double {
		x, y := math.Float64frombits(a), math.Float64frombits(b)
		return x == y || x != x && y != y
	}
	return a == b
}

// Tuple is one sample of a stream. It can be reused.
type Tuple struct {
	// Schema of its stream when the tuple was sent.
	Schema *Schema
	// Time in seconds since the start-time of the header.
	Time float64
	// Seq is the client's sequence number.
	Seq    int64
	Values []Value
}

// resize sets the number of values, reusing their memory.
func (t *Tuple) resize(n int) {
	if cap(t.Values) < n {
		t.Values = append(t.Values[:cap(t.Values)], make([]Value, n-cap(t.Values))...)
	}
	t.Values = t.Values[:n]
}
