package measure

import (
	"errors"
	"fmt"
	"runtime"

	flatbuffers "github.com/google/flatbuffers/go"
)

// flatTable is a table of a FlatBuffer from an untrusted writer. Fields are identified by their number in the FlatBuffers
// schema; one that is absent reads as zero. Nothing is allocated but the requested strings. Reading panics outside the
// bytes, and at faults: recovered makes errors of both.
type flatTable struct{ flatbuffers.Table }

// flatFault is what a writer may not do.
type flatFault struct{ error }

func fault(format string, values ...any) { panic(flatFault{fmt.Errorf(format, values...)}) }

var errOutside = errors.New("metadata points outside itself")

// recovered is deferred by whoever reads tables.
func recovered(err *error) {
	switch reason := recover().(type) {
	case nil:
	case flatFault:
		*err = reason.error
	case runtime.Error:
		*err = errOutside
	default:
		panic(reason)
	}
}

func rootTable(bytes []byte) flatTable { return tableIn(bytes, flatbuffers.GetUOffsetT(bytes)) }

func tableIn(bytes []byte, at flatbuffers.UOffsetT) flatTable {
	t := flatTable{flatbuffers.Table{Bytes: bytes, Pos: at}}
	slots := flatbuffers.UOffsetT(flatbuffers.SOffsetT(at) - t.GetSOffsetT(at))
	if size := int(t.GetVOffsetT(slots)); size < 4 || size%2 != 0 || size > len(bytes)-int(slots) {
		fault("metadata has a table of %d bytes of slots", size)
	}
	return t
}

func slot(field int) flatbuffers.VOffsetT { return flatbuffers.VOffsetT(4 + 2*field) }

func (t flatTable) has(field int) bool       { return t.Offset(slot(field)) != 0 }
func (t flatTable) byteOf(field int) uint8   { return t.GetUint8Slot(slot(field), 0) }
func (t flatTable) int16Of(field int) int16  { return t.GetInt16Slot(slot(field), 0) }
func (t flatTable) int32Of(field int) int32  { return t.GetInt32Slot(slot(field), 0) }
func (t flatTable) int64Of(field int) int64  { return t.GetInt64Slot(slot(field), 0) }
func (t flatTable) int64(position int) int64 { return t.GetInt64(flatbuffers.UOffsetT(position)) }

func (t flatTable) tableOf(field int) flatTable {
	at := t.Offset(slot(field))
	if at == 0 {
		fault("metadata lacks field %d", field)
	}
	return tableIn(t.Bytes, t.Indirect(t.Pos+flatbuffers.UOffsetT(at)))
}

// textOf copies a string of at most limit bytes. Without the limit, many fields
// that point at one long string would need many times the memory of the message.
func (t flatTable) textOf(field, limit int) string {
	start, n := t.vectorOf(field, 1, limit)
	return string(t.Bytes[start : start+n])
}

// vectorOf is the position and length of a vector of at most limit elements of
// the given size, all of them inside.
func (t flatTable) vectorOf(field, size, limit int) (start, n int) {
	at := flatbuffers.UOffsetT(t.Offset(slot(field)))
	if at == 0 {
		return 0, 0
	}
	start, n = int(t.Vector(at)), t.VectorLen(at)
	if n > limit {
		fault("metadata has %d elements where at most %d may be", n, limit)
	}
	_ = t.Bytes[start : start+n*size]
	return start, n
}

// tableAt is the table to which an element of a vector of tables points.
func (t flatTable) tableAt(start, i int) flatTable {
	return tableIn(t.Bytes, t.Indirect(flatbuffers.UOffsetT(start+4*i)))
}
