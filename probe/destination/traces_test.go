package destination

import (
	"encoding/binary"
	"errors"
	"reflect"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// tracedHeader is a Hop-by-Hop header with a trace as our source writes it, and what routers did to it.
// sent: of the edge-to-edge option, which is missing if it is zero
func tracedHeader(sent time.Time, number uint32, trace *codec.Trace) []byte {
	h := codec.Header{Trace: trace}
	if !sent.IsZero() {
		at := codec.TimestampOf(sent)
		h.E2E = &codec.E2E{
			Fields: codec.E2ESequence32 | codec.E2ESeconds | codec.E2EFraction,
			Number: uint64(number), Seconds: uint32(at >> 32), Fraction: uint32(at),
		}
	}
	return codec.AppendHeader(nil, 17, h)
}

const tracedType = codec.TraceHopLimit | codec.TraceSeconds | codec.TraceFraction

// routers are n entries of Linux, which stamp a millisecond apart.
func routers(n int, from time.Time) (entries [][]uint32, nodes []TraceNode) {
	for i := range n {
		at := from.Add(time.Duration(i+1) * time.Millisecond).Truncate(time.Microsecond)
		entries = append(entries, []uint32{uint32(63-i)<<24 | uint32(0x101+i), uint32(at.Unix()), uint32(at.Nanosecond() / 1000)})
		nodes = append(nodes, TraceNode{ID: uint64(0x101 + i), HopLimit: uint8(63 - i), TimeNs: at.UnixNano()})
	}
	return entries, nodes
}

// take reads the traces that are there.
func (d *Destination) take(t *testing.T) (all []Trace) {
	t.Helper()
	if err := d.ReadTraces(func(trace *Trace) { all = append(all, *trace) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTrace: from none to more routers than there is space for, the packet is restored, and the
// agent gets what they wrote.
func TestTrace(t *testing.T) {
	d := open(t, Settings{Traces: true})
	for n := range 10 {
		for i, hook := range hooks {
			sent := time.Now().Add(-20 * time.Millisecond)
			entries, nodes := routers(n, sent)
			trace := &codec.Trace{Type: tracedType, Left: 24 - 3*min(n, 8), Entries: entries[:min(n, 8)]}
			if n > 8 {
				trace.Flags = codec.TraceOverflow
			}
			number := uint32(100*n + i)
			in := frame(behind(tracedHeader(sent, number|wire.SingleBit, trace), 0), hook.tags...)
			before := d.mustTally(t)
			checkFrame(t, run(t, hook.program(d), in, 0), frame(behind(nil, 17), hook.tags...))
			if after := d.mustTally(t); after.Restored-before.Restored != 1 {
				t.Fatalf("%s, %d routers: tally went from %+v to %+v", hook.name, n, before, after)
			}
			f := d.takeFlow(t)
			got := d.take(t)
			if len(got) != 1 {
				t.Fatalf("%s, %d routers: %d traces", hook.name, n, len(got))
			}
			want := Trace{
				Key: keyOf(behind(nil, 17)), SentNs: got[0].SentNs, ReceivedNs: int64(f.FirstNs), Number: number,
				Nodes: nodes[:min(n, 8)], Overflow: n > 8,
			}
			if n == 0 {
				want.Nodes = nil
			}
			if away := got[0].SentNs - sent.UnixNano(); !reflect.DeepEqual(got[0], want) || away < -1 || away > 1 {
				t.Errorf("%s, %d routers: got %+v, want %+v; sent %d ns off", hook.name, n, got[0], want, away)
			}
			if f.DelaySum != got[0].ReceivedNs-got[0].SentNs {
				t.Errorf("the flow has a delay of %d ns, the trace of %d", f.DelaySum, got[0].ReceivedNs-got[0].SentNs)
			}
		}
	}
	if tally, err := d.TraceTally(); err != nil || tally != (TraceTally{Written: 40}) {
		t.Errorf("tally %+v, %v", tally, err)
	}
}

func FuzzTrace(f *testing.F) {
	record := func(lengths uint16, kind uint32, length int) []byte {
		b := make([]byte, traceSize)
		binary.NativeEndian.PutUint16(b[20:], uint16(length))
		binary.BigEndian.PutUint16(b[22:], lengths)
		binary.BigEndian.PutUint32(b[24:], kind<<8)
		return b
	}
	f.Add(record(3<<11, tracedType, 96))
	f.Add(record(3<<11|24, tracedType, 96))
	f.Add(record(31<<11, 0xfffffc, 124))
	f.Add(record(4<<11, traceWideID|traceSeconds|traceFraction, 144))
	f.Fuzz(func(t *testing.T, b []byte) {
		trace, err := parseTrace(b)
		if err != nil {
			if !errors.Is(err, ErrTrace) {
				t.Fatalf("unnamed error: %v", err)
			}
			return
		}
		if len(trace.Nodes) > traceData/4 {
			t.Fatalf("%d nodes", len(trace.Nodes))
		}
	})
}
