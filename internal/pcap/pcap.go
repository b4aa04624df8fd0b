// Package pcap reads packets from capture files: pcap with microseconds or nanoseconds, and
// pcapng with all of its packet blocks and time units, in either byte order.
//
// It decodes no packets and writes no files. gopacket's reader is not used because it rounds
// the units of pcapng and refuses files that tcpdump reads.
package pcap

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"time"
)

// Packet is a packet of a file.
type Packet struct {
	// Time of the capture, rounded down to nanoseconds. Times that nanoseconds since 1970 in 64
	// bits cannot express become the first or the last that they can. It is zero if the
	// file has no time for the packet, as in a Simple Packet Block.
	Time time.Time
	// Link is the link type, a LINKTYPE_ of tcpdump.org.
	Link uint16
	// Data is the captured part, valid until the next call.
	Data []byte
	// Length on the wire, bytes. It is at least the length of Data, whatever the file says.
	Length int
}

// ErrFormat marks a file that is not a capture, or is damaged.
var ErrFormat = errors.New("not a valid capture")

// blockMax bounds what is read at once, bytes; libpcap has the same limit.
const blockMax = 16 << 20

// The magic numbers of pcap.
const (
	magicMicros = 0xa1b2c3d4
	magicNanos  = 0xa1b23c4d
)

// IsCapture reports whether a file that begins with these four bytes is a capture.
func IsCapture(magic [4]byte) bool {
	_, _, known := classic(magic)
	return known || magic == sectionMagic
}

// classic returns the byte order and the time unit of a pcap file.
func classic(magic [4]byte) (binary.ByteOrder, unit, bool) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(magic[:]) {
		case magicMicros:
			return order, 6, true
		case magicNanos:
			return order, 9, true
		}
	}
	return nil, 0, false
}

// Reader reads the packets of a file.
type Reader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	buf   []byte
	ng    bool
	// interfaces of the current section; pcap has one.
	interfaces []description
}

// description of an interface.
type description struct {
	link   uint16
	snap   uint32 // bytes captured of a packet; 0: all
	unit   unit
	offset int64 // s, added to times
}

// NewReader reads the header of a file.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(from, 1<<16)}
	magic, err := r.in.Peek(4)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, unexpected(err))
	}
	if [4]byte(magic) == sectionMagic {
		r.ng = true
		return r, nil
	}
	order, unit, known := classic([4]byte(magic))
	if !known {
		return nil, fmt.Errorf("%w: it begins with %x", ErrFormat, magic)
	}
	r.order = order
	head, err := r.read(24)
	if err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, unexpected(err))
	}
	if major, minor := order.Uint16(head[4:]), order.Uint16(head[6:]); major != 2 {
		return nil, fmt.Errorf("%w: version %d.%d of pcap is not supported", ErrFormat, major, minor)
	}
	// The upper bits say whether frames have a check sequence.
	r.interfaces = []description{{link: uint16(order.Uint32(head[20:])), unit: unit}}
	return r, nil
}

// Next returns the next packet, or io.EOF at the end of the file.
func (r *Reader) Next() (Packet, error) {
	next := r.record
	if r.ng {
		next = r.nextBlock
	}
	p, err := next()
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return p, err
}

// record reads a packet of pcap.
func (r *Reader) record() (Packet, error) {
	head, err := r.read(16)
	if err != nil {
		return Packet{}, err
	}
	seconds, fraction := r.order.Uint32(head), r.order.Uint32(head[4:])
	captured, length := r.order.Uint32(head[8:]), r.order.Uint32(head[12:])
	data, err := r.read(captured)
	if err != nil {
		return Packet{}, unexpected(err)
	}
	of := r.interfaces[0]
	p := packet(of, data, length)
	p.Time = of.unit.time(uint64(fraction), int64(seconds))
	return p, nil
}

func packet(of description, data []byte, length uint32) Packet {
	return Packet{Link: of.link, Data: data, Length: max(int(length), len(data))}
}

// read reads n bytes, which the next call overwrites. The error is io.EOF only before the first one.
func (r *Reader) read(n uint32) ([]byte, error) {
	if n > blockMax {
		return nil, fmt.Errorf("%d bytes are more than %d", n, blockMax)
	}
	if int(n) > len(r.buf) {
		r.buf = make([]byte, n)
	}
	_, err := io.ReadFull(r.in, r.buf[:n])
	return r.buf[:n], err
}

// unexpected is for an end where more must follow.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// unit is if_tsresol of pcapng: units are 10^-n s, or 2^-n s if the top bit is set.
type unit uint8

// The first and last times that Packet.Time can have.
var firstTime, lastTime = time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)

// time is so many units after 1970 and an offset in seconds.
func (u unit) time(ticks uint64, offset int64) time.Time {
	const second = 1_000_000_000
	exponent := uint(u & 0x7f)
	var seconds, nanos uint64
	switch binary := u&0x80 != 0; {
	case binary && exponent < 64:
		seconds = ticks >> exponent
		high, low := bits.Mul64(ticks&(1<<exponent-1), second)
		nanos = high<<(64-exponent) | low>>exponent
	case binary:
		high, _ := bits.Mul64(ticks, second)
		nanos = high >> (exponent - 64)
	case exponent < 20:
		per := power(exponent)
		seconds = ticks / per
		high, low := bits.Mul64(ticks%per, second)
		nanos, _ = bits.Div64(high, low, per)
	case exponent < 29: // all times in smaller units are below a nanosecond
		nanos = ticks / power(exponent-9)
	}
	sum, carry := bits.Add64(seconds, uint64(offset), 0)
	switch high, t := offset>>63+int64(carry), time.Unix(int64(sum), int64(nanos)); {
	case high < 0 && (int64(sum) < firstTime.Unix() || t.Before(firstTime)):
		return firstTime
	case high > 0 || high == 0 && (sum > uint64(lastTime.Unix()) || t.After(lastTime)):
		return lastTime
	default:
		return t
	}
}

// power is 10^n for n below 20, for which a float64 is exact.
func power(n uint) uint64 { return uint64(math.Pow10(int(n))) }
