package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// flat reads a FlatBuffer from an untrusted writer: every position is checked, none
// is followed outside the bytes, and nothing is allocated but the requested strings.
// The first fault stays in err; everything read after it is zero.
type flat struct {
	bytes []byte
	err   error
}

func (f *flat) fail(format string, values ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, values...)
	}
}

var errOutside = errors.New("metadata points outside itself")

// at is the n bytes at a position; zeros if they are not all inside.
func (f *flat) at(position, n int) []byte {
	if f.err == nil && position >= 0 && position <= len(f.bytes) && n <= len(f.bytes)-position {
		return f.bytes[position : position+n]
	}
	if f.err == nil {
		f.err = errOutside
	}
	return make([]byte, 8)[:min(n, 8)]
}

func (f *flat) uint16(position int) uint16 { return binary.LittleEndian.Uint16(f.at(position, 2)) }
func (f *flat) uint32(position int) uint32 { return binary.LittleEndian.Uint32(f.at(position, 4)) }
func (f *flat) int64(position int) int64   { return int64(binary.LittleEndian.Uint64(f.at(position, 8))) }

// follow is where the offset at a position leads.
func (f *flat) follow(position int) int {
	offset := f.uint32(position)
	if int64(offset) > int64(len(f.bytes)) {
		f.fail("%w", errOutside)
		return 0
	}
	return position + int(offset)
}

func (f *flat) root() flatTable { return f.table(f.follow(0)) }

// flatTable is one table. Fields are identified by their number in the FlatBuffers schema;
// one that is absent reads as zero.
type flatTable struct {
	*flat
	start, slots, size int
}

func (f *flat) table(start int) flatTable {
	back := int64(int32(f.uint32(start)))
	slots := int64(start) - back
	if slots < 0 || slots > int64(len(f.bytes)) {
		f.fail("%w", errOutside)
		slots = 0
	}
	size := int(f.uint16(int(slots)))
	if f.err == nil && (size < 4 || size%2 != 0 || size > len(f.bytes)-int(slots)) {
		f.fail("metadata has a table of %d bytes of slots", size)
	}
	return flatTable{f, start, int(slots), size}
}

// place is the position of a field, or 0: no field can be at 0, where the root's
// offset is.
func (t flatTable) place(field int) int {
	slot := 4 + 2*field
	if t.err != nil || slot+2 > t.size {
		return 0
	}
	offset := t.uint16(t.slots + slot)
	if offset == 0 {
		return 0
	}
	return t.start + int(offset)
}

func (t flatTable) has(field int) bool { return t.place(field) != 0 }

func (t flatTable) byteOf(field int) uint8 {
	if p := t.place(field); p != 0 {
		return t.at(p, 1)[0]
	}
	return 0
}

func (t flatTable) int16Of(field int) int16 {
	if p := t.place(field); p != 0 {
		return int16(t.uint16(p))
	}
	return 0
}

func (t flatTable) int32Of(field int) int32 {
	if p := t.place(field); p != 0 {
		return int32(t.uint32(p))
	}
	return 0
}

func (t flatTable) int64Of(field int) int64 {
	if p := t.place(field); p != 0 {
		return t.int64(p)
	}
	return 0
}

func (t flatTable) tableOf(field int) flatTable {
	if p := t.place(field); p != 0 {
		return t.table(t.follow(p))
	}
	t.fail("metadata lacks field %d", field)
	return flatTable{flat: t.flat}
}

// textOf copies a string of at most limit bytes. Without the limit, many fields
// that point at one long string would need many times the memory of the message.
func (t flatTable) textOf(field, limit int) string {
	start, n := t.vectorOf(field, 1, limit)
	return string(t.at(start, n))
}

// vectorOf is the position and length of a vector of at most limit elements of
// the given size, all of them inside.
func (t flatTable) vectorOf(field, size, limit int) (start, n int) {
	p := t.place(field)
	if p == 0 {
		return 0, 0
	}
	p = t.follow(p)
	count := t.uint32(p)
	if t.err != nil {
		return 0, 0
	}
	if int64(count) > int64(limit) {
		t.fail("metadata has %d elements where at most %d may be", count, limit)
		return 0, 0
	}
	t.at(p+4, int(count)*size)
	if t.err != nil {
		return 0, 0
	}
	return p + 4, int(count)
}

// tableAt is the table to which an element of a vector of tables points.
func (f *flat) tableAt(start, i int) flatTable { return f.table(f.follow(start + 4*i)) }
