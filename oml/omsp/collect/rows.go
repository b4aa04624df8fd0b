package collect

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/oml/omsp"
)

// rows collects tuples of one table.
type rows struct {
	Table
	of      *omsp.Schema
	builder *array.RecordBuilder
	count   int
	bytes   int
	// session distinguishes tuples of this stream from other clients' tuples.
	session uint64
	// last is the sequence number of the newest tuple; begun: there is one.
	last  int64
	begun bool
	// under is the number of pending batches.
	under atomic.Int64

	time                   *array.TimestampBuilder
	sender                 *array.StringBuilder
	sessions               *array.Uint64Builder
	seq                    *array.Int64Builder
	clientTime, serverTime *array.Float64Builder
	before                 []*array.StringBuilder
	values                 []func(*omsp.Value)
}

// rowsOf returns an empty table.
func rowsOf(t Table, s *omsp.Schema) *rows {
	r := &rows{Table: t, of: s}
	r.builder = array.NewRecordBuilder(memory.DefaultAllocator, t.Schema.Arrow())
	b := r.builder
	r.time, r.sender, r.sessions = b.Field(0).(*array.TimestampBuilder), b.Field(1).(*array.StringBuilder), b.Field(2).(*array.Uint64Builder)
	r.seq, r.clientTime, r.serverTime = b.Field(3).(*array.Int64Builder), b.Field(4).(*array.Float64Builder), b.Field(5).(*array.Float64Builder)
	for i := range t.Before {
		r.before = append(r.before, b.Field(len(columns)+i).(*array.StringBuilder))
	}
	for i, f := range s.Fields {
		r.values = append(r.values, r.appender(b.Field(len(columns)+len(t.Before)+i), f.Type))
	}
	return r
}

// appender returns a function that appends values of a field to its column.
func (r *rows) appender(to array.Builder, t omsp.Type) func(*omsp.Value) {
	switch b := to.(type) {
	case *array.Int32Builder:
		return func(v *omsp.Value) { b.Append(int32(v.Int())) }
	case *array.Uint32Builder:
		return func(v *omsp.Value) { b.Append(uint32(v.Uint())) }
	case *array.Int64Builder:
		return func(v *omsp.Value) { b.Append(v.Int()) }
	case *array.Uint64Builder:
		return func(v *omsp.Value) { b.Append(v.Uint()) }
	case *array.Float64Builder:
		return func(v *omsp.Value) { b.Append(v.Double()) }
	case *array.BooleanBuilder:
		return func(v *omsp.Value) { b.Append(v.Bool()) }
	case *array.BinaryBuilder:
		return func(v *omsp.Value) { b.Append(v.Bytes()); r.bytes += len(v.Bytes()) }
	case *array.StringBuilder:
		if t.IsVector() {
			var text []byte
			return func(v *omsp.Value) {
				text = appendDoubles(text[:0], v.Elements())
				b.BinaryBuilder.Append(text)
				r.bytes += len(text)
			}
		}
		return func(v *omsp.Value) { r.appendText(b, v.Bytes()) }
	case *array.ListBuilder:
		return r.listAppender(b)
	}
	panic(fmt.Sprintf("no column for %v", t)) // columnTypes has all types
}

// appendText replaces invalid UTF-8, which the archive does not accept.
func (r *rows) appendText(b *array.StringBuilder, text []byte) {
	if !utf8.Valid(text) {
		text = []byte(validText(text))
	}
	b.BinaryBuilder.Append(text)
	r.bytes += len(text)
}

func validText(text []byte) string {
	var valid []byte
	for len(text) > 0 {
		c, size := utf8.DecodeRune(text)
		valid = utf8.AppendRune(valid, c)
		text = text[size:]
	}
	return string(valid)
}

func (r *rows) listAppender(b *array.ListBuilder) func(*omsp.Value) {
	signed, isSigned := b.ValueBuilder().(*array.Int64Builder)
	unsigned, _ := b.ValueBuilder().(*array.Uint64Builder)
	return func(v *omsp.Value) {
		b.Append(true)
		for _, bits := range v.Elements() {
			if isSigned {
				signed.Append(int64(bits))
			} else {
				unsigned.Append(bits)
			}
		}
		r.bytes += 8 * len(v.Elements())
	}
}

// appendDoubles writes a vector as a JSON list, with nan and inf as words.
func appendDoubles(to []byte, elements []uint64) []byte {
	to = append(to, '[')
	for i, bits := range elements {
		if i > 0 {
			to = append(to, ", "...)
		}
		to = strconv.AppendFloat(to, math.Float64frombits(bits), 'g', -1, 64)
	}
	return append(to, ']')
}

// stamp has the columns of a tuple besides its values.
type stamp struct {
	at                     arrow.Timestamp
	sender                 string
	clientTime, serverTime float64
}

// add adds a tuple.
func (r *rows) add(t *omsp.Tuple, s stamp) {
	r.time.Append(s.at)
	r.sender.Append(s.sender)
	r.sessions.Append(r.session)
	r.seq.Append(t.Seq)
	r.clientTime.Append(s.clientTime)
	r.serverTime.Append(s.serverTime)
	for i, text := range r.Before {
		r.before[i].Append(text)
		r.bytes += len(text)
	}
	for i := range t.Values {
		r.values[i](&t.Values[i])
	}
	r.count++
	r.bytes += 48 + len(s.sender) + 8*len(t.Values)
}

// cut returns the tuples added as a batch, or nil.
func (r *rows) cut() arrow.RecordBatch {
	if r.count == 0 {
		return nil
	}
	r.count, r.bytes = 0, 0
	return r.builder.NewRecordBatch()
}

// timestamp returns start + seconds, clamped to the range of timestamps.
func timestamp(start int64, seconds float64) arrow.Timestamp {
	ns := seconds * 1e9
	switch {
	case !(ns > -math.MaxInt64/2): // NaN too
		ns = -math.MaxInt64 / 2
	case ns > math.MaxInt64/4:
		ns = math.MaxInt64 / 4
	}
	return arrow.Timestamp(start*1e9 + int64(ns))
}
