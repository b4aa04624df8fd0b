//go:build long

package destination

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// TestLongTraceOfKernel reads what Linux 6.18 wrote (docs/reference/wire-standards.md), and traces that no source of ours began.
func TestLongTraceOfKernel(t *testing.T) {
	const captured = `110a 0100 313a 0000 0000 1803 b0000000 000000000000000000000000 3d000103 6b03f993 000e9200
		3e000102 6b03f993 000e91fb 3f000101 6b03f993 000e91f3`
	base := int64(0x6b03f993) * 1e9
	three := []TraceNode{
		{ID: 0x101, HopLimit: 63, TimeNs: base + 0xe91f3*1000}, {ID: 0x102, HopLimit: 62, TimeNs: base + 0xe91fb*1000},
		{ID: 0x103, HopLimit: 61, TimeNs: base + 0xe9200*1000},
	}
	for _, row := range []struct {
		name, hex string
		nodes     []TraceNode
		overflow  bool
		verdict   string
	}{
		{"with an edge-to-edge option, of another size", captured + `1112 0003 0000 7000 80000005 ecd0a4e2 40000000 0102 0000`, three, false, kept},
		{"begun by a Linux route", `1107 0100 313a 0000 0000 180c b0000000` + strings.Repeat("00", 48), nil, false, unmarked},
		{"filled, without a mark", `1108` + captured[4:] + `0102 0000`, three, false, unmarked},
		{"overflow", `1104 0100 3122 0000 0000 1c00 b0000000 3e000102 6b03f993 000e91fb 3f000101 6b03f993 000e91f3`, three[:2], true, unmarked},
		{"interfaces and queues", `1104 0100 311e 0000 0000 2800 f2000000 3f000101 001e000a 6b03f993 000e91f3 00000007 0102 0000`, three[:1], false, unmarked},
		{"wide ids", `1103 0100 311a 0000 0000 2000 30800000 6b03f993 000e91f3 3f000001 00000002`,
			[]TraceNode{{ID: 1<<32 | 2, HopLimit: 63, TimeNs: three[0].TimeNs}}, false, unmarked},
		{"times that are none", `1103 0100 3116 0000 0000 1800 b0000000 3f000101 ffffffff ffffffff 0102 0000`, []TraceNode{{ID: 0x101, HopLimit: 63}}, false, unmarked},
		{"nanoseconds of others", `1103 0100 3116 0000 0000 1800 b0000000 3f000101 6b03f993 3b9ac9ff 0102 0000`, []TraceNode{{ID: 0x101, HopLimit: 63}}, false, unmarked},
	} {
		t.Run(row.name, func(t *testing.T) {
			header, err := hex.DecodeString(strings.Join(strings.Fields(row.hex), ""))
			if err != nil {
				t.Fatal(err)
			}
			header[1] = byte(len(header)/8 - 1)
			d := open(t, Settings{Traces: true})
			for _, hook := range hooks[:2] {
				in := frame(behind(header, 0))
				before := d.mustTally(t)
				checkFrame(t, run(t, hook.program(d), in, 0), in)
				after := d.mustTally(t)
				if (after.Kept-before.Kept == 1) != (row.verdict == kept) || (after.Unmarked-before.Unmarked == 1) != (row.verdict == unmarked) {
					t.Errorf("%s: tally went from %+v to %+v", hook.name, before, after)
				}
				got := d.take(t)
				if len(got) != 1 || got[0].Key.Src != keyOf(behind(nil, 17)).Src || !reflect.DeepEqual(got[0].Nodes, row.nodes) || got[0].Overflow != row.overflow {
					t.Errorf("%s: got %+v, want %+v", hook.name, got, row.nodes)
				}
				if flows := d.takeFlows(t); len(flows) != 0 != (row.verdict == kept) {
					t.Errorf("%s: %d flows", hook.name, len(flows))
				}
			}
		})
	}
}

// TestLongTracesOfStrangers: traces come from peers, and of those with keys only with a right tag, or where none is needed; without
// room they are counted; whoever did not ask for them gets none.
func TestLongTracesOfStrangers(t *testing.T) {
	in := frame(behind(tracedHeader(time.Now(), wire.SingleBit|5, &codec.Trace{Type: tracedType, Left: 24}), 0))
	bare := frame(behind(tracedHeader(time.Time{}, 0, &codec.Trace{Type: tracedType, Left: 24}), 0))
	strangers := open(t, Settings{Traces: true, StartEmpty: true})
	authenticated := open(t, Settings{Traces: true, Peers: Peers{{}: {Keys: []wire.Key{{1}}}}})
	for _, packet := range [][]byte{in, bare} {
		run(t, strangers.objects.DestinationTc, packet, 0)
		run(t, authenticated.objects.DestinationTc, packet, 0)
	}
	if got := append(strangers.take(t), authenticated.take(t)...); len(got) != 0 {
		t.Errorf("%d traces", len(got))
	}
	untagged := open(t, Settings{Traces: true, Peers: mixed(Rule{Untagged: true}, ruleOf(t, "proto=tcp", false))})
	for _, packet := range [][]byte{in, bare} {
		run(t, untagged.objects.DestinationTc, packet, 0)
	}
	if got := untagged.take(t); len(got) != 2 {
		t.Errorf("%d traces of packets that no session with authentication measures", len(got))
	}
	d := open(t, Settings{})
	run(t, d.objects.DestinationTc, in, 0)
	if tally, err := d.TraceTally(); err != nil || tally != (TraceTally{}) {
		t.Errorf("traces that nobody asked for: %+v, %v", tally, err)
	}
	if err := d.ReadTraces(func(*Trace) {}); !errors.Is(err, ErrNoTraces) {
		t.Errorf("got %v", err)
	}
	full := open(t, Settings{Traces: true, traceBytes: 1 << 14})
	const sent = 200
	for range sent {
		run(t, full.objects.DestinationTc, in, 0)
	}
	read := len(full.take(t))
	if tally, err := full.TraceTally(); err != nil || tally.Dropped == 0 || tally.Written != uint64(read) || tally.Written+tally.Dropped != sent {
		t.Errorf("%d read: %+v, %v", read, tally, err)
	}
}
