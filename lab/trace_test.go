package lab_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
)

// TestTracesThroughStockRouters: routers that know nothing but the kernel's own IOAM write into the
// packets of a source. The destination reads who they were and when, in the order of the path; times
// never go back but for what cutting them to microseconds takes; and the application gets its data.
func TestTracesThroughStockRouters(t *testing.T) {
	t.Parallel()
	b := up(t, stockRouters)
	const packets = 100
	var d *destination.Destination
	b.do("b", func() (err error) {
		device, err := hook.Find("r3")
		if err != nil {
			return err
		}
		d, err = destination.Open(device, destination.Settings{Traces: true})
		return err
	})
	defer d.Close()
	s := b.probe("a", "source", "r1", "--encoding", "ioam-trace", "--stamp-every", "1")
	flow := b.open("a", "b", netip.MustParseAddrPort("[fd77:0:0:4::2]:9000"))
	flow.send(packets, 32000)
	flow.receive(packets)
	var marked sourceSummary
	s.finish(&marked)
	var traces []destination.Trace
	if err := d.ReadTraces(func(trace *destination.Trace) { traces = append(traces, *trace) }); err != nil {
		t.Fatal(err)
	}
	tally, err := d.Tally()
	if err != nil {
		t.Fatal(err)
	}
	if len(traces) != packets || marked.Marked != packets || tally.Restored != packets || tally.Packets != packets {
		t.Fatalf("%d traces of %d packets, marked %d, read %+v", len(traces), packets, marked.Marked, tally)
	}
	for _, trace := range traces {
		var nodes []uint64
		times := []int64{trace.SentNs}
		for i, node := range trace.Nodes {
			nodes = append(nodes, node.ID)
			times = append(times, node.TimeNs)
			if node.HopLimit != uint8(63-i) {
				t.Errorf("node %#x has hop limit %d", node.ID, node.HopLimit)
			}
		}
		times = append(times, trace.ReceivedNs)
		if want := []uint64{0x101, 0x102, 0x103}; !slices.Equal(nodes, want) || trace.Overflow {
			t.Fatalf("nodes %#x, overflow %v, want %#x", nodes, trace.Overflow, want)
		}
		for i := 1; i < len(times); i++ {
			if times[i] < times[i-1]-int64(time.Microsecond) {
				t.Errorf("times %v: hop %d ends before it begins", times, i)
			}
		}
		if third := times[3] - times[2]; third < int64(3*time.Millisecond-time.Microsecond) {
			t.Errorf("%d ns over the link that takes 3 ms", third)
		}
	}
}

// extensionBox is a firewall that drops packets with an extension header right behind the IPv6 header.
func extensionBox(next int32) instructions {
	return instructions(append(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(ethertypeAt, asm.Half),
		asm.JNE.Imm(asm.R0, unix.ETH_P_IPV6, "pass"),
		asm.LoadAbs(nextAt6, asm.Byte),
		asm.JNE.Imm(asm.R0, next, "pass"),
		asm.Mov.Imm(asm.R0, 2),
		asm.Return(),
	}, pass...))
}

// TestPathValidationOfStandards: where extension headers are dropped, applications lose nothing, and
// the next encoding of the list is used.
func TestPathValidationOfStandards(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, row := range []struct {
		name, first, next string
		header            int32
	}{
		{"hop-by-hop", "ioam-trace", "native", unix.IPPROTO_HOPOPTS},
		{"destination options", "ioam-e2e", "ioam-trace", unix.IPPROTO_DSTOPTS},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, pair)
			d := b.probe("b", "destination", "a", "--interval", "50ms")
			b.insert("b", "a", extensionBox(row.header)) // before it
			s := b.probe("a", "source", "b", validated, "--encoding", row.first+","+row.next)
			flow := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000))
			sent := flow.used(s, row.first, "failed")
			sent += flow.used(s, row.next, "passed")
			flow.send(100, 32000)
			flow.receive(sent + 100)
			marked, read := both(s, d)
			if read.Packets < 100 || read.Packets != marked.Marked || read.Lost != 0 {
				t.Errorf("marked %+v, read %+v", marked, read)
			}
		})
	}
}
