package source

import (
	"encoding/binary"
	"fmt"

	"pillion.dev/probe/flow"
	"pillion.dev/probe/table"
	"pillion.dev/wire"
)

// Sent is what a flow has sent since the reading before. Its packets have the numbers from
// First to Next, modulo 2^31.
type Sent struct {
	Key flow.Key
	// Start is the number with which the flow began here; another Start is another flow of
	// numbers.
	Start uint32
	First uint32
	// Next is the number that the next packet will have.
	Next uint32
	// Packets that carry a number, and those that sparse marks count.
	Packets uint64
}

// Began reports whether the flow began after the reading before.
func (s Sent) Began() bool { return s.Start == s.First }

// sentFlow is what was last read of a flow.
type sentFlow struct {
	start, next uint32
	reading     uint64
}

// slotBusy is SLOT_BUSY of bpf/slot.h.
const slotBusy = ^uint64(0)

// Sent returns the flows that have sent numbered packets since the last call. A flow that
// left the table between two calls is not in it, nor are its last packets: call it before
// Sweep, which waits for it.
func (s *Source) Sent() ([]Sent, error) {
	s.tables.Lock()
	defer s.tables.Unlock()
	if s.sent == nil {
		s.sent = map[flow.Raw]sentFlow{}
	}
	s.readings++
	var sent []Sent
	take := func(key flow.Raw, n *sourceNumbering) {
		now := sentFlow{start: n.First, next: n.Next & wire.SequenceMask, reading: s.readings}
		if one, ok := now.since(s.sent[key]); ok {
			one.Key = key.Key()
			sent = append(sent, one)
		}
		s.sent[key] = now
	}
	if err := s.eachSlot(take); err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	if err := s.eachOther(take); err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	for key, f := range s.sent {
		if f.reading != s.readings {
			delete(s.sent, key)
		}
	}
	return sent, nil
}

// since returns what a flow has sent since before, if anything.
func (f sentFlow) since(before sentFlow) (Sent, bool) {
	first := f.start
	if before.reading != 0 && before.start == f.start {
		first = before.next
	}
	packets := (f.next - first) & wire.SequenceMask
	return Sent{Start: f.start, First: first, Next: f.next, Packets: uint64(packets)}, packets != 0
}

// eachSlot passes on the flows in slots.
func (s *Source) eachSlot(take func(flow.Raw, *sourceNumbering)) error {
	return table.Each(s.objects.Slots, slotsMax, nil, func(_ uint32, slot *sourceSlot) {
		if key := &slot.Key; key.Last != 0 && key.Last != slotBusy {
			take(rawOfSlot(key.Words, key.Last), &slot.Numbers)
		}
	})
}

// eachOther passes on the flows that are in no slot.
func (s *Source) eachOther(take func(flow.Raw, *sourceNumbering)) error {
	return table.Each(s.objects.FlowNumbers, sweepBatch, nil, take)
}

// rawOfSlot is the flow key of a slot, which has it in words.
func rawOfSlot(words [4]uint64, last uint64) flow.Raw {
	var b [flow.RawSize]byte
	for i, word := range append(words[:], last) {
		binary.NativeEndian.PutUint64(b[8*i:], word)
	}
	return flow.ParseRaw(b[:])
}
