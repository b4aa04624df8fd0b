// Package block reads what probes count by blocks of Alternate Marking (RFC 9341): how many
// packets of a flow were sent, or have arrived, in each period of time. Source and destination
// count alike, in the states of modules; neither knows what the other has counted.
package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/probe/table"
)

// Bounds of a period, and the usual one.
const (
	Default = time.Second
	Least   = 100 * time.Millisecond
	Most    = time.Minute
)

// ErrPeriod marks a length that blocks cannot have.
var ErrPeriod = errors.New("bad length of blocks")

// Check returns an error unless blocks can have this length.
func Check(period time.Duration) error {
	if period < Least || period > Most || period%time.Millisecond != 0 {
		return fmt.Errorf("%w: %v, want whole milliseconds from %v to %v", ErrPeriod, period, Least, Most)
	}
	return nil
}

// Count is what a probe counted of a flow in a block that is over.
type Count struct {
	Key flow.Key
	// Period is the length of the block, Number says which it is: 0 begins in 1970, UTC.
	Period time.Duration
	Number uint64
	// Packets were sent or have arrived.
	Packets uint64
	// Marked is when the packet left or arrived whose delay is measured; the zero time: none did.
	Marked time.Time
	// Doubtful packets may be in another block: they arrived a quarter of a block or more outside of theirs.
	Doubtful uint64
}

// End is when the block is over.
func (c *Count) End() time.Time { return End(c.Number, c.Period) }

// End is when a block is over.
func End(number uint64, period time.Duration) time.Time {
	return time.Unix(0, int64(number+1)*int64(period)).UTC()
}

// Of returns the number of the block that a moment is in.
func Of(t time.Time, period time.Duration) uint64 { return uint64(t.UnixNano() / int64(period)) }

const (
	ring      = 4                // BLOCKS of bpf/block.h
	stateSize = 17 * 8           // struct module_state
	keySize   = flow.RawSize + 4 // struct module_key
	batch     = 1024
)

// Reader reads the counts of one probe. The program may change while it does.
type Reader struct {
	// Late is how long after its end packets are still counted in a block, in blocks: 0 at a
	// source, 0.5 at a destination.
	Late float64
	// Idle is how long a flow is remembered without a packet.
	Idle time.Duration

	// Missed are blocks that were not read in time.
	Missed uint64

	through map[time.Duration]uint64 // the last block that was read
}

// Span are the blocks that a reading could see: what it does not report of them was not counted.
type Span struct {
	First, Last uint64
}

// settled is how much time may pass on a processor between reading the clock and counting a packet.
const settled = 20 * time.Millisecond

// behindMax is how far a clock may be behind the last reading, in blocks, that was not set back.
const behindMax = 2 * ring

// span returns the blocks that are over at a moment, were not read before, and are still known.
// None: Last is less than First.
func (r *Reader) span(now time.Time, period time.Duration) Span {
	late := time.Duration(r.Late * float64(period))
	after := uint64(now.Add(-late-settled).UnixNano()/int64(period)) - 1
	s := Span{First: uint64(now.Add(late).UnixNano()/int64(period)) - ring + 1, Last: after}
	if before, known := r.through[period]; known && before <= after+behindMax {
		if s.First > before+1 {
			r.Missed += s.First - before - 1
		}
		s.First = max(s.First, before+1)
		s.Last = max(s.Last, before)
	}
	return s
}

// Read returns what was counted in blocks that are over and were not read before, by the clock of
// now, and which blocks of one length these are. It has to be called at least once in two blocks;
// those that it missed are in no Span.
func (r *Reader) Read(states *ebpf.Map, now time.Time, period time.Duration) ([]Count, Span, error) {
	if r.through == nil {
		r.through = map[time.Duration]uint64{}
	}
	spans := map[time.Duration]Span{period: r.span(now, period)}
	var counts []Count
	var idle [][keySize]byte
	err := table.Each(states, batch, nil, func(key [keySize]byte, state *[stateSize]byte) {
		length := periodOf(&key)
		if length == 0 {
			return
		}
		if _, known := spans[length]; !known {
			spans[length] = r.span(now, length)
		}
		counts = appendCounts(counts, flow.ParseRaw(key[:]), state, length, spans[length])
		if lastOf(state).Before(now.Add(-r.Idle - 2*ring*length)) {
			idle = append(idle, key)
		}
	})
	if err != nil {
		return nil, Span{}, fmt.Errorf("read blocks: %w", err)
	}
	for _, key := range idle {
		if err := states.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, Span{}, fmt.Errorf("remove blocks: %w", err)
		}
	}
	for length, span := range spans {
		r.through[length] = span.Last
	}
	return counts, spans[period], nil
}

// lastOf is when the last block of a state began to be counted.
func lastOf(state *[stateSize]byte) time.Time {
	return time.Unix(0, int64(binary.NativeEndian.Uint64(state[stateSize-8:])))
}

// periodOf is the length of the blocks in a state of a module; 0: it has others.
func periodOf(key *[keySize]byte) time.Duration {
	id := binary.NativeEndian.Uint32(key[flow.RawSize:])
	if id&0xff != 0 {
		return 0
	}
	return time.Duration(id>>8) * time.Millisecond
}

// appendCounts appends what a struct block_counts has of the blocks of a span.
func appendCounts(counts []Count, key flow.Raw, state *[stateSize]byte, period time.Duration, span Span) []Count {
	for i := range ring {
		word := func(group int) uint64 { return binary.NativeEndian.Uint64(state[8*(group*ring+i):]) }
		count := word(0)
		// The upper half is the lower half of a number, which is close to the span.
		number := span.Last + uint64(int64(int32(uint32(count>>32)-uint32(span.Last))))
		if uint32(count) == 0 || number < span.First || number > span.Last {
			continue
		}
		c := Count{Key: key.Key(), Period: period, Number: number, Packets: uint64(uint32(count)), Doubtful: word(2)}
		if marked := word(1); marked != 0 {
			c.Marked = time.Unix(0, int64(marked)).UTC()
		}
		counts = append(counts, c)
	}
	return counts
}
