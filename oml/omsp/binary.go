package omsp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A packet starts with two sync bytes, its kind, and the length of the rest.
const (
	mark       = 0xAA
	shortKind  = 1 // length in 2 bytes
	longKind   = 2 // length in 4 bytes
	shortHead  = 5
	longHead   = 7
	doubleUnit = 1 << 30 // of the mantissa of a double
)

// Tags of values.
const (
	tagLong   = 0x01 // int32 of old clients
	tagDouble = 0x02
	tagNaN    = 0x03
	tagString = 0x04
	tagInt32  = 0x05
	tagUint32 = 0x06
	tagInt64  = 0x07
	tagUint64 = 0x08
	tagBlob   = 0x09
	tagGUID   = 0x0A
	tagFalse  = 0x0B
	tagTrue   = 0x0C
	tagVector = 0x0D
	// Elements of vectors; Pillion's clients also send IEEE doubles as values.
	tagBool = 0x0E
	tagIEEE = 0x0F
)

var errShort = errors.New("truncated value")

// nextPacket reads the next packet, skipping garbage before it.
func (r *Reader) nextPacket(t *Tuple) error {
	head, size, err := r.findPacket()
	if err != nil {
		return err
	}
	if size > r.limits.Line {
		return fmt.Errorf("%w: packet of %d bytes, limit %d", ErrLimit, size, r.limits.Line)
	}
	if _, err := r.in.Discard(head); err != nil {
		return unexpected(err)
	}
	packet, err := r.take(size)
	if err != nil {
		return fmt.Errorf("%w: truncated packet: %w", ErrTuple, unexpected(err))
	}
	if err := r.parsePacket(t, packet); err != nil {
		return fmt.Errorf("%w: %w", ErrTuple, err)
	}
	return nil
}

// findPacket finds a packet: the length of its head and of the rest.
func (r *Reader) findPacket() (head, size int, err error) {
	for {
		start, err := r.in.Peek(shortHead)
		switch {
		case len(start) == 0:
			return 0, 0, err
		case err != nil: // less than any packet
			r.skipped += uint64(len(start))
			r.in.Discard(len(start))
			return 0, 0, err
		case start[0] == mark && start[1] == mark && start[2] == shortKind:
			return shortHead, int(binary.BigEndian.Uint16(start[3:])), nil
		case start[0] == mark && start[1] == mark && start[2] == longKind:
			start, err = r.in.Peek(longHead)
			if err != nil {
				r.in.Discard(len(start)) // or the next call would find the same bytes
				return 0, 0, fmt.Errorf("%w: truncated packet", ErrTuple)
			}
			return longHead, int(binary.BigEndian.Uint32(start[3:])), nil
		}
		if err := r.resynchronise(); err != nil {
			return 0, 0, err
		}
	}
}

// resynchronise skips to the next two sync bytes.
func (r *Reader) resynchronise() error {
	n := 1
	buffered, _ := r.in.Peek(r.in.Buffered())
	if i := bytes.Index(buffered[1:], []byte{mark, mark}); i >= 0 {
		n = i + 1
	} else if n = len(buffered); buffered[n-1] == mark && n > 1 {
		n-- // the second sync byte may follow
	}
	r.skipped += uint64(n)
	_, err := r.in.Discard(n)
	return err
}

// take returns the next n bytes, valid until the next tuple.
func (r *Reader) take(n int) ([]byte, error) {
	if n <= bufferSize {
		packet, err := r.in.Peek(n)
		if err == nil {
			_, err = r.in.Discard(n) // peeked bytes are valid until the next read
		}
		return packet, err
	}
	if cap(r.long) < n {
		r.long = make([]byte, n)
	}
	r.long = r.long[:n]
	_, err := io.ReadFull(r.in, r.long)
	return r.long, err
}

// cursor decodes a packet.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) bytes(n int) []byte {
	if n > len(c.rest) {
		c.bad, c.rest = true, nil
		return make([]byte, min(n, 8)) // numbers have at most 8 bytes; callers check bad
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) uint8() uint8   { return c.bytes(1)[0] }
func (c *cursor) uint16() uint16 { return binary.BigEndian.Uint16(c.bytes(2)) }
func (c *cursor) uint32() uint32 { return binary.BigEndian.Uint32(c.bytes(4)) }
func (c *cursor) uint64() uint64 { return binary.BigEndian.Uint64(c.bytes(8)) }

// parsePacket parses count, stream, seq, time and values.
func (r *Reader) parsePacket(t *Tuple, packet []byte) error {
	c := &cursor{rest: packet}
	count, index := int(c.uint8()), int(c.uint8())
	var seq, seconds Value
	if err := seq.unpack(c, Int64); err != nil {
		return fmt.Errorf("seq: %w", err)
	}
	if err := seconds.unpack(c, Double); err != nil {
		return fmt.Errorf("time: %w", err)
	}
	if t.Schema = r.schema(index); t.Schema == nil {
		return fmt.Errorf("stream %d has no schema", index)
	}
	t.Seq, t.Time = seq.Int(), seconds.Double()
	fields := t.Schema.Fields
	if count != len(fields) {
		return fmt.Errorf("%s has %d values, want %d", t.Schema.Name, count, len(fields))
	}
	t.resize(count)
	for i := range fields {
		if err := t.Values[i].unpack(c, fields[i].Type); err != nil {
			return fmt.Errorf("%s.%s: %w", t.Schema.Name, fields[i].Name, err)
		}
	}
	if len(c.rest) > 0 {
		return fmt.Errorf("%s: %d bytes after the last value", t.Schema.Name, len(c.rest))
	}
	return nil
}

// unpack decodes a tagged value as a type. A number of another type is converted if
// that is exact.
func (v *Value) unpack(c *cursor, want Type) error {
	v.Type = want
	tag := c.uint8()
	var n, x = int64(0), float64(0)
	kind := numberSigned
	switch tag {
	case tagLong, tagInt32:
		n = int64(int32(c.uint32()))
	case tagInt64:
		n = int64(c.uint64())
	case tagUint32:
		n = int64(c.uint32())
	case tagUint64, tagGUID:
		n, kind = int64(c.uint64()), numberUnsigned
	case tagFalse, tagTrue:
		n = int64(tag - tagFalse)
		if want != Bool {
			return fmt.Errorf("bool for %v", want)
		}
	case tagDouble:
		mantissa, exponent := int32(c.uint32()), int8(c.uint8())
		x, kind = math.Ldexp(float64(mantissa)/doubleUnit, int(exponent)), numberDouble
	case tagNaN:
		c.bytes(5)
		x, kind = math.NaN(), numberDouble
	case tagIEEE: // of Pillion's clients: IEEE doubles
		x, kind = math.Float64frombits(c.uint64()), numberDouble
	case tagString, tagBlob, tagVector:
		return v.unpackLong(c, tag)
	default:
		return fmt.Errorf("unknown tag 0x%02x", tag)
	}
	if c.bad {
		return errShort
	}
	return v.setNumber(kind, n, x)
}

// Kinds of numbers in packets.
const (
	numberSigned = iota
	numberUnsigned
	numberDouble
)

// setNumber converts a number to the value's type.
func (v *Value) setNumber(kind int, n int64, x float64) error {
	fits := false
	switch v.Type {
	case Double:
		if kind == numberSigned {
			x = float64(n)
		} else if kind == numberUnsigned {
			x = float64(uint64(n))
		}
		v.bits, fits = math.Float64bits(x), true
	case Bool:
		v.bits, fits = uint64(n), kind == numberSigned && (n == 0 || n == 1)
	case Int32, Int64:
		limit := int64(math.MaxInt64)
		if v.Type == Int32 {
			limit = math.MaxInt32
		}
		v.bits = uint64(n)
		fits = kind == numberSigned && n <= limit && n >= -limit-1 || kind == numberUnsigned && uint64(n) <= uint64(limit)
	case Uint32, Uint64, GUID:
		v.bits = uint64(n)
		fits = (kind == numberUnsigned || kind == numberSigned && n >= 0) && (v.Type != Uint32 || uint64(n) <= math.MaxUint32)
	}
	if !fits {
		return fmt.Errorf("number out of range of %v", v.Type)
	}
	return nil
}

// unpackLong decodes a string, a blob or a vector.
func (v *Value) unpackLong(c *cursor, tag uint8) error {
	switch {
	case tag == tagString && v.Type == String:
		v.bytes = c.bytes(int(c.uint8()))
	case tag == tagBlob && v.Type == Blob:
		size := c.uint32()
		if uint64(size) > uint64(len(c.rest)) {
			return errShort
		}
		v.bytes = c.bytes(int(size))
	case tag == tagVector && v.Type.IsVector():
		return v.unpackVector(c)
	default:
		return fmt.Errorf("tag 0x%02x for %v", tag, v.Type)
	}
	if c.bad {
		return errShort
	}
	return nil
}

var elementTags = map[Type]uint8{
	Int32: tagInt32, Uint32: tagUint32, Int64: tagInt64, Uint64: tagUint64, Bool: tagBool, Double: tagIEEE,
}

func (v *Value) unpackVector(c *cursor) error {
	element := v.Type.Element()
	if tag := c.uint8(); tag != elementTags[element] && !c.bad {
		return fmt.Errorf("elements with tag 0x%02x for %v", tag, v.Type)
	}
	v.list = v.list[:0]
	for range c.uint16() {
		var bits uint64
		switch element {
		case Int32:
			bits = uint64(int64(int32(c.uint32())))
		case Uint32:
			bits = uint64(c.uint32())
		case Bool:
			bits = uint64(c.uint8() - tagFalse)
		default:
			bits = c.uint64()
		}
		if c.bad {
			return errShort
		}
		if element == Bool && bits > 1 {
			return errors.New("element is neither true nor false")
		}
		v.list = append(v.list, bits)
	}
	if c.bad {
		return errShort
	}
	return nil
}
