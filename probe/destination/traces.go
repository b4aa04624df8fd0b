package destination

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"pillion.dev/probe/flow"
)

// ErrTrace marks a trace that contradicts itself.
var ErrTrace = errors.New("malformed trace")

// ErrNoTraces marks a destination that was opened without traces.
var ErrNoTraces = errors.New("traces were not asked for")

// Layout of struct trace in trace.h.
const (
	traceHead     = 32 + flow.RawSize
	traceData     = 144
	traceSize     = traceHead + traceData
	traceOverflow = 8 // flag O of RFC 9197
	// traceBytes is the size of the ring buffer: some 8,000 traces, as many as 80 sources send
	// in a second if each has one every 10 ms.
	traceBytes = 1 << 21
)

// Bits of a trace type (RFC 9197, section 4.4.1), from the most significant of 24.
const (
	traceHopLimit = 1 << 23 // hop limit and node id, in a word
	traceSeconds  = 1 << 21
	traceFraction = 1 << 20
	traceWideID   = 1 << 15                     // the same in two words
	traceWide     = traceWideID | 1<<14 | 1<<13 // fields of two words
	traceOpaque   = 1<<1 | 1                    // data of variable length, and a reserved bit
	unavailable   = 1<<32 - 1                   // what a node writes that does not know a field
	microsecond   = int64(time.Microsecond)
	secondInMicro = int64(time.Second / time.Microsecond)
)

// TraceTally counts traces since Open.
type TraceTally struct {
	Written uint64 `json:"read"`
	// Dropped for lack of room, and Malformed by whoever wrote them.
	Dropped   uint64 `json:"dropped"`
	Malformed uint64 `json:"malformed"`
}

// ReadTraces hands over the traces that came since it was called last; it does not wait. A
// trace that contradicts itself is counted. The trace is valid during the call only.
func (d *Destination) ReadTraces(take func(*Trace)) error {
	if d.traces == nil {
		return fmt.Errorf("read traces: %w", ErrNoTraces)
	}
	var raw ringbuf.Record
	d.traces.SetDeadline(time.Unix(0, 1))
	for {
		err := d.traces.ReadInto(&raw)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ringbuf.ErrFlushed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read traces: %w", err)
		}
		trace, err := parseTrace(raw.RawSample)
		if err != nil {
			d.malformedTraces++
			continue
		}
		take(trace)
	}
}

// TraceTally returns the counts.
func (d *Destination) TraceTally() (TraceTally, error) {
	var cpus []destinationTraceTally
	if err := d.objects.TraceTallies.Lookup(uint32(0), &cpus); err != nil {
		return TraceTally{}, fmt.Errorf("read trace tally: %w", err)
	}
	tally := TraceTally{Malformed: d.malformedTraces}
	for _, cpu := range cpus {
		tally.Written += cpu.Written
		tally.Dropped += cpu.Dropped
	}
	return tally, nil
}

// parseTrace reads a struct trace.
func parseTrace(b []byte) (*Trace, error) {
	if len(b) < traceSize {
		return nil, fmt.Errorf("%w: %d bytes, want %d", ErrTrace, len(b), traceSize)
	}
	order := binary.NativeEndian
	t := &Trace{
		ReceivedNs: int64(order.Uint64(b)), SentNs: int64(order.Uint64(b[8:])), Number: order.Uint32(b[16:]),
		Key: flow.ParseRaw(b[32:]).Marked(),
	}
	length, lengths := int(order.Uint16(b[20:])), binary.BigEndian.Uint16(b[22:])
	kind, data := binary.BigEndian.Uint32(b[24:])>>8, b[traceHead:traceSize]
	if length > len(data) {
		return nil, fmt.Errorf("%w: %d bytes of data, limit %d", ErrTrace, length, len(data))
	}
	t.Overflow = lengths>>7&traceOverflow != 0
	words := traceWords(kind)
	if words == 0 || int(lengths>>11) != words {
		return nil, fmt.Errorf("%w: entries of %d words for type %06x", ErrTrace, lengths>>11, kind)
	}
	left := 4 * int(lengths&0x7f)
	if left > length || (length-left)%(4*words) != 0 {
		return nil, fmt.Errorf("%w: %d bytes, %d of them free, entries of %d words", ErrTrace, length, left, words)
	}
	for entry := data[left:length]; len(entry) > 0; entry = entry[4*words:] {
		t.Nodes = append(t.Nodes, traceNode(kind, entry))
	}
	slices.Reverse(t.Nodes) // the last router stands first
	return t, nil
}

// traceWords returns the words of an entry, zero for a type with data of variable length.
func traceWords(kind uint32) int {
	if kind&traceOpaque != 0 {
		return 0
	}
	return bits.OnesCount32(kind) + bits.OnesCount32(kind&traceWide)
}

// traceNode reads what a node wrote: of other fields than these only the place counts. Times are as
// Linux writes them, seconds since 1970 and microseconds; an invalid fraction of a second is no time.
func traceNode(kind uint32, entry []byte) (node TraceNode) {
	seconds, fraction := uint32(unavailable), uint32(unavailable)
	for bit := uint32(1) << 23; bit != 0; bit >>= 1 {
		if kind&bit == 0 {
			continue
		}
		word := binary.BigEndian.Uint32(entry)
		switch bit {
		case traceHopLimit:
			node.HopLimit, node.ID = uint8(word>>24), uint64(word&0xffffff)
		case traceSeconds:
			seconds = word
		case traceFraction:
			fraction = word
		case traceWideID:
			node.HopLimit, node.ID = uint8(word>>24), uint64(word&0xffffff)<<32|uint64(binary.BigEndian.Uint32(entry[4:]))
		}
		entry = entry[4:]
		if bit&traceWide != 0 {
			entry = entry[4:]
		}
	}
	if seconds != unavailable && int64(fraction) < secondInMicro {
		node.TimeNs = int64(seconds)*int64(time.Second) + int64(fraction)*microsecond
	}
	return node
}
