package loader

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"pillion.dev/measure"
)

// appendRow encodes a sample of a point: the name, the number of values, then each value as
// its type and its content.
func appendRow(out []byte, point string, sample measure.Sample) []byte {
	out = appendBytes(out, point)
	out = binary.AppendUvarint(out, uint64(len(sample)))
	for _, v := range sample {
		out = append(out, byte(v.Type()))
		switch v.Type() {
		case 0:
		case measure.String:
			out = appendBytes(out, v.Text())
		case measure.Binary:
			out = appendBytes(out, v.Bytes())
		case measure.Uint64List, measure.Int64List:
			out = binary.AppendUvarint(out, uint64(len(v.List())))
			for _, n := range v.List() {
				out = binary.AppendUvarint(out, n)
			}
		default:
			out = binary.LittleEndian.AppendUint64(out, v.Uint64())
		}
	}
	return out
}

func appendBytes[T string | []byte](out []byte, text T) []byte {
	return append(binary.AppendUvarint(out, uint64(len(text))), text...)
}

var errRow = errors.New("malformed row")

// rowReader reads what appendRow has written. It does not trust it.
type rowReader struct {
	rest []byte
	bad  bool
}

func (r *rowReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *rowReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// parseRow decodes a row into a sample whose memory it uses again, if there is any. Binary
// values are valid as long as the text.
func parseRow(text []byte, into measure.Sample) (point string, sample measure.Sample, err error) {
	r := rowReader{rest: text}
	point = string(r.take(r.uvarint()))
	n := r.uvarint()
	if n > uint64(len(r.rest)) { // each value has a byte at least
		return "", nil, errRow
	}
	sample = into[:0]
	for range n {
		sample = append(sample, r.value())
	}
	if r.bad || len(r.rest) > 0 {
		return "", nil, errRow
	}
	return point, sample, nil
}

func (r *rowReader) value() measure.Value {
	kind := r.take(1)
	if r.bad {
		return measure.Value{}
	}
	switch t := measure.Type(kind[0]); t {
	case 0:
		return measure.Value{}
	case measure.String:
		return measure.StringValue(string(r.take(r.uvarint())))
	case measure.Binary:
		return measure.BinaryValue(r.take(r.uvarint()))
	case measure.Uint64List, measure.Int64List:
		return r.list(t)
	default:
		bits := r.take(8)
		if r.bad {
			return measure.Value{}
		}
		return r.number(t, binary.LittleEndian.Uint64(bits))
	}
}

func (r *rowReader) list(t measure.Type) measure.Value {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return measure.Value{}
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = r.uvarint()
	}
	if t == measure.Uint64List {
		return measure.Uint64ListValue(list)
	}
	signed := make([]int64, n)
	for i, v := range list {
		signed[i] = int64(v)
	}
	return measure.Int64ListValue(signed)
}

func (r *rowReader) number(t measure.Type, bits uint64) measure.Value {
	switch t {
	case measure.Bool:
		return measure.BoolValue(bits != 0)
	case measure.Int32:
		return measure.Int32Value(int32(bits))
	case measure.Uint32:
		return measure.Uint32Value(uint32(bits))
	case measure.Int64:
		return measure.Int64Value(int64(bits))
	case measure.Uint64:
		return measure.Uint64Value(bits)
	case measure.Float64:
		return measure.Float64Value(math.Float64frombits(bits))
	case measure.Time:
		return measure.TimeValue(time.Unix(0, int64(bits)))
	}
	r.bad = true
	return measure.Value{}
}
