package omsp

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// Append appends a tuple in either encoding.
func Append(to []byte, content Content, t *Tuple) ([]byte, error) {
	if len(t.Values) != len(t.Schema.Fields) {
		return to, fmt.Errorf("write %s: %d values, want %d", t.Schema.Name, len(t.Values), len(t.Schema.Fields))
	}
	for i := range t.Values {
		if f := t.Schema.Fields[i]; t.Values[i].Type != f.Type {
			return to, fmt.Errorf("write %s.%s: type %v, want %v", t.Schema.Name, f.Name, t.Values[i].Type, f.Type)
		}
	}
	if content == Binary {
		return appendPacket(to, t)
	}
	return appendLine(to, t), nil
}

func appendLine(to []byte, t *Tuple) []byte {
	to = strconv.AppendFloat(to, t.Time, 'f', 6, 64)
	to = append(to, tab)
	to = strconv.AppendInt(to, int64(t.Schema.Index), 10)
	to = append(to, tab)
	to = strconv.AppendInt(to, t.Seq, 10)
	for i := range t.Values {
		to = t.Values[i].appendText(append(to, tab))
	}
	return append(to, '\n')
}

func (v *Value) appendText(to []byte) []byte {
	switch {
	case v.Type.IsVector():
		to = strconv.AppendInt(to, int64(len(v.list)), 10)
		for _, bits := range v.list {
			to = appendScalar(append(to, ' '), v.Type.Element(), bits, "True", "False")
		}
		return to
	case v.Type == String:
		return appendEscaped(to, v.bytes)
	case v.Type == Blob:
		return base64.StdEncoding.AppendEncode(to, v.bytes)
	}
	return appendScalar(to, v.Type, v.bits, "T", "F")
}

func appendScalar(to []byte, t Type, bits uint64, yes, no string) []byte {
	switch t {
	case Int32, Int64:
		return strconv.AppendInt(to, int64(bits), 10)
	case Double:
		return appendDouble(to, math.Float64frombits(bits))
	case Bool:
		if bits != 0 {
			return append(to, yes...)
		}
		return append(to, no...)
	}
	return strconv.AppendUint(to, bits, 10)
}

// appendDouble writes the shortest text that parses as the same number.
func appendDouble(to []byte, x float64) []byte {
	switch {
	case math.IsNaN(x):
		return append(to, "nan"...)
	case math.IsInf(x, 0):
		to = strconv.AppendFloat(to, x, 'f', -1, 64) // +Inf, -Inf: strtod parses both
		return to
	case x != 0 && (math.Abs(x) < 1e-4 || math.Abs(x) >= 1e17):
		return strconv.AppendFloat(to, x, 'e', -1, 64)
	}
	return strconv.AppendFloat(to, x, 'f', -1, 64)
}

func appendEscaped(to, text []byte) []byte {
	for _, c := range text {
		switch c {
		case '\t':
			to = append(to, '\\', 't')
		case '\n':
			to = append(to, '\\', 'n')
		case '\r':
			to = append(to, '\\', 'r')
		case '\\':
			to = append(to, '\\', '\\')
		default:
			to = append(to, c)
		}
	}
	return to
}

// appendPacket writes a packet. A double is truncated to a mantissa of 31 bits, the
// precision of the binary form.
func appendPacket(to []byte, t *Tuple) ([]byte, error) {
	if t.Schema.Index > math.MaxUint8 || len(t.Values) > math.MaxUint8 || t.Seq != int64(int32(t.Seq)) {
		return to, fmt.Errorf("write %s: a packet is limited to 255 streams, 255 values and a seq of 31 bits", t.Schema.Name)
	}
	start := len(to)
	to = append(to, mark, mark, shortKind, 0, 0, byte(len(t.Values)), byte(t.Schema.Index), tagInt32)
	to = binary.BigEndian.AppendUint32(to, uint32(t.Seq))
	to = appendPackedDouble(to, t.Time)
	var err error
	for i := range t.Values {
		if to, err = t.Values[i].pack(to); err != nil {
			return to[:start], fmt.Errorf("write %s.%s: %w", t.Schema.Name, t.Schema.Fields[i].Name, err)
		}
	}
	size := len(to) - start - shortHead
	if size <= math.MaxUint16 {
		binary.BigEndian.PutUint16(to[start+3:], uint16(size))
		return to, nil
	}
	to = append(to, 0, 0)
	copy(to[start+longHead:], to[start+shortHead:len(to)-2])
	to[start+2] = longKind
	binary.BigEndian.PutUint32(to[start+3:], uint32(size))
	return to, nil
}

func appendPackedDouble(to []byte, x float64) []byte {
	fraction, exponent := math.Frexp(x)
	if math.IsNaN(x) || math.IsInf(x, 0) || exponent > math.MaxInt8 {
		return append(to, tagNaN, 0, 0, 0, 0, 0)
	}
	if exponent < math.MinInt8 {
		fraction, exponent = 0, 0
	}
	to = binary.BigEndian.AppendUint32(append(to, tagDouble), uint32(int32(fraction*doubleUnit)))
	return append(to, byte(int8(exponent)))
}

func (v *Value) pack(to []byte) ([]byte, error) {
	if v.Type.IsVector() {
		return v.packVector(to)
	}
	switch v.Type {
	case Int32:
		return binary.BigEndian.AppendUint32(append(to, tagInt32), uint32(v.bits)), nil
	case Uint32:
		return binary.BigEndian.AppendUint32(append(to, tagUint32), uint32(v.bits)), nil
	case Int64:
		return binary.BigEndian.AppendUint64(append(to, tagInt64), v.bits), nil
	case Uint64:
		return binary.BigEndian.AppendUint64(append(to, tagUint64), v.bits), nil
	case GUID:
		return binary.BigEndian.AppendUint64(append(to, tagGUID), v.bits), nil
	case Bool:
		return append(to, tagFalse+byte(v.bits)), nil
	case Double:
		return appendPackedDouble(to, v.Double()), nil
	case String:
		if len(v.bytes) > math.MaxUint8 {
			return to, fmt.Errorf("string of %d bytes, limit 255 in binary", len(v.bytes))
		}
		return append(append(to, tagString, byte(len(v.bytes))), v.bytes...), nil
	}
	return append(binary.BigEndian.AppendUint32(append(to, tagBlob), uint32(len(v.bytes))), v.bytes...), nil
}

func (v *Value) packVector(to []byte) ([]byte, error) {
	if len(v.list) > math.MaxUint16 {
		return to, fmt.Errorf("vector of %d elements, limit 65535 in binary", len(v.list))
	}
	element := v.Type.Element()
	to = binary.BigEndian.AppendUint16(append(to, tagVector, elementTags[element]), uint16(len(v.list)))
	for _, bits := range v.list {
		switch element {
		case Int32, Uint32:
			to = binary.BigEndian.AppendUint32(to, uint32(bits))
		case Bool:
			to = append(to, tagFalse+byte(bits))
		default:
			to = binary.BigEndian.AppendUint64(to, bits)
		}
	}
	return to, nil
}
