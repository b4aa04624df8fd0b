package runner

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/flow"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// hop is one node of a test: its last figure is its time in ns.
func hop(id uint64, limit uint8, ns int64) destination.TraceNode {
	return destination.TraceNode{ID: id, HopLimit: limit, TimeNs: ns}
}

func traceOf(sent, received int64, nodes ...destination.TraceNode) *destination.Trace {
	return &destination.Trace{
		Key:    flow.Key{Src: netip.MustParseAddr("2001:db8::1"), Dst: netip.MustParseAddr("2001:db8::2"), Protocol: 17, Sport: 1, Dport: 2},
		SentNs: sent, ReceivedNs: received, Nodes: nodes,
	}
}

// TestHopRows: fixed traces give these rows, to the nanosecond.
func TestHopRows(t *testing.T) {
	const base = 1_790_000_000_000_000_000
	overflowed := traceOf(base, base+9000, hop(0x101, 63, base+1000), hop(0x102, 62, base+4000))
	overflowed.Overflow = true
	for _, row := range []struct {
		name   string
		traces []*destination.Trace
		want   []string // hop, path, previous, node, skipped, packets, overflowed, count, min, mean, p50, p99, max, uncertainty, clock error
	}{
		{"none", nil, nil},
		{"two nodes", []*destination.Trace{
			traceOf(base, base+5700, hop(0x101, 63, base+1000), hop(0x102, 62, base+4000)),
			traceOf(base+10, base+7710, hop(0x101, 63, base+3000), hop(0x102, 62, base+4000)),
		}, []string{
			"0 0x000101 0x000102||||2|0|2|5700 6700 5700 7700 7700|1|700",
			"1 0x000101 0x000102||0x000101||2|0|2|1000 1995 1000 2990 2990|1000|",
			"2 0x000101 0x000102|0x000101|0x000102|0|2|0|2|1000 2000 1000 3000 3000|1000|",
			"3 0x000101 0x000102|0x000102|||2|0|2|1700 2705 1700 3710 3710|1000|",
		}},
		{"clocks disagree", []*destination.Trace{traceOf(base, base+50, hop(0x101, 63, base-2000))}, []string{
			"0 0x000101||||1|0|1|50 50 50 50 50|1|700",
			"1 0x000101||0x000101||1|0|1|-2000 -2000 -2000 -2000 -2000|1000|",
			"2 0x000101|0x000101|||1|0|1|2050 2050 2050 2050 2050|1000|",
		}},
		{"no node", []*destination.Trace{traceOf(base, base+50)}, []string{
			"0 ||||1|0|1|50 50 50 50 50|1|700",
			"1 ||||1|0|1|50 50 50 50 50|1|700",
		}},
		{"a node without a time", []*destination.Trace{traceOf(base, base+5000, hop(0x101, 63, 0), hop(0x102, 60, base+4000))}, []string{
			"0 0x000101? 0x000102||||1|0|1|5000 5000 5000 5000 5000|1|700",
			"1 0x000101? 0x000102||0x000101||1|0|0|    |1000|",
			"2 0x000101? 0x000102||0x000102|2|1|0|1|4000 4000 4000 4000 4000|1000|",
			"3 0x000101? 0x000102|0x000102|||1|0|1|1000 1000 1000 1000 1000|1000|",
		}},
		{"a source that wrote no time", []*destination.Trace{traceOf(0, base+5000, hop(0x101, 0, base), hop(0x102, 0, base+4000))}, []string{
			"0 0x000101 0x000102||||1|0|0|    |1|",
			"1 0x000101 0x000102||0x000101||1|0|0|    |1000|",
			"2 0x000101 0x000102|0x000101|0x000102||1|0|1|4000 4000 4000 4000 4000|1000|",
			"3 0x000101 0x000102|0x000102|||1|0|1|1000 1000 1000 1000 1000|1000|",
		}},
		{"overflow and another path", []*destination.Trace{overflowed, traceOf(base, base+100, hop(0x101, 63, base+60))}, []string{
			"0 0x000101||||1|0|1|100 100 100 100 100|1|700",
			"1 0x000101||0x000101||1|0|1|60 60 60 60 60|1000|",
			"2 0x000101|0x000101|||1|0|1|40 40 40 40 40|1000|",
			"0 0x000101 0x000102||||1|1|1|9000 9000 9000 9000 9000|1|700",
			"1 0x000101 0x000102||0x000101||1|1|1|1000 1000 1000 1000 1000|1000|",
			"2 0x000101 0x000102|0x000101|0x000102|0|1|1|1|3000 3000 3000 3000 3000|1000|",
			"3 0x000101 0x000102|0x000102|||1|1|1|5000 5000 5000 5000 5000|1000|",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := hopRows(t, row.traces)
			if !slices.Equal(got, row.want) {
				t.Errorf("rows are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(row.want, "\n"))
			}
		})
	}
}

// hopRows sends traces through a destination and returns its rows as text.
func hopRows(t *testing.T, traces []*destination.Trace) []string {
	t.Helper()
	var rows []string
	asked := readingTask(t, "asked")
	asked.peers = map[netip.Addr]string{netip.MustParseAddr("2001:db8::1"): "a"}
	asked.Hops = true
	silent := asked
	silent.Session, silent.Hops = "silent", false
	foreign := asked
	foreign.peers = map[netip.Addr]string{netip.MustParseAddr("2001:db8::9"): "c"}
	d := &deviceDestination{
		device: hook.Device{Name: "eth0"}, pulse: session.Pulse{ClockErrorNs: map[string]int64{"a": 500}},
		subscribers: []*subscriber{{task: asked}, {task: silent}, {task: foreign}},
		sink: func(schema *measure.Schema, sample measure.Sample) {
			if schema != &measure.HopDelays || len(sample) != len(schema.Fields) {
				t.Fatalf("%d values of %s", len(sample), schema.Name)
			}
			text := map[string]string{}
			for i, field := range schema.Fields {
				switch v := sample[i]; v.Type() {
				case 0:
				case measure.String:
					text[field.Name] = v.Text()
				default:
					text[field.Name] = fmt.Sprint(v.Int64())
				}
				if !sample[i].IsNull() && sample[i].Type() != field.Type {
					t.Errorf("%s is of type %v, want %v", field.Name, sample[i].Type(), field.Type)
				}
			}
			if got := []string{text["session"], text["source"], text["device"], text["src"], text["dst"], text["interval_ns"]}; !slices.Equal(got,
				[]string{"asked", "a", "eth0", "2001:db8::1", "2001:db8::2", "1000000000"}) {
				t.Errorf("row begins %v", got)
			}
			rows = append(rows, fmt.Sprintf("%s %s|%s|%s|%s|%s|%s|%s|%s %s %s %s %s|%s|%s", text["hop"], text["path"], text["previous"], text["node"],
				text["skipped"], text["packets"], text["overflowed"], text["delay_count"], text["delay_min_ns"], text["delay_mean_ns"],
				text["delay_p50_ns"], text["delay_p99_ns"], text["delay_max_ns"], text["uncertainty_ns"], text["clock_error_ns"]))
		},
	}
	for _, trace := range traces {
		d.giveTrace(trace)
	}
	for _, r := range d.subscribers {
		d.emitHops(r, moment{day: time.Unix(5, 0), steady: time.Second}, flows.BoundOf(200))
		if len(r.hops.take()) > 0 {
			t.Error("rows remain")
		}
	}
	return rows
}

// TestHopsAddUp: for each packet the delays of the hops add up to that of the whole path, and
// so do the sums of all packets.
func TestHopsAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h hopDelays
	for range 10_000 {
		sent := random.Int64N(1<<62) + 1
		trace := traceOf(sent, sent+random.Int64N(1<<40)-1<<39)
		at := sent
		for i := range random.IntN(9) {
			at += random.Int64N(1 << 30)
			ns := at
			if random.IntN(10) == 0 {
				ns = 0
			}
			trace.Nodes = append(trace.Nodes, hop(uint64(i), uint8(63-i), ns))
		}
		sum := int64(0)
		for _, delay := range hopsOf(trace)[1:] {
			sum += delay.ns
		}
		if want := trace.ReceivedNs - trace.SentNs; sum != want || hopsOf(trace)[0].ns != want {
			t.Fatalf("hops of %+v add up to %d, want %d", trace, sum, want)
		}
		h.add("a", trace)
	}
	for _, paths := range h.pairs {
		for name, path := range paths {
			sum := flows.Distribution{}.Total
			for i := range path.delays[1:] {
				sum = sum.Add(path.delays[i+1].Total)
			}
			if name != hopPathOther && sum != path.delays[0].Total {
				t.Errorf("path %q: hops add up to %v, the whole to %v", name, sum, path.delays[0].Total)
			}
		}
	}
}

// TestHopsAreBounded: further paths of a pair count as one, further pairs are counted only.
func TestHopsAreBounded(t *testing.T) {
	var h hopDelays
	for i := range hopPathsMost + 30 {
		for range 2 {
			h.add("a", traceOf(1000, 3000, hop(uint64(i), 63, 2000), hop(7, 62, 2500)))
		}
	}
	rows := h.take()
	if len(rows) != hopPathsMost*4+1 {
		t.Errorf("%d rows", len(rows))
	}
	packets := uint64(0)
	for _, row := range rows {
		if row.Hop == 0 {
			packets += row.Packets
		}
		if row.Path == hopPathOther && (row.Packets != 60 || row.Delay.Count != 60 || row.Delay.Min != 2000 || !row.ends) {
			t.Errorf("other paths are %+v", row)
		}
	}
	if packets != h.read || h.read != 2*(hopPathsMost+30) {
		t.Errorf("rows of %d packets, read %d", packets, h.read)
	}
	for i := range hopPairsMost + 3 {
		trace := traceOf(1000, 3000)
		trace.Key.Src = netip.AddrFrom16([16]byte{14: byte(i >> 8), 15: byte(i)})
		h.add("a", trace)
	}
	if h.dropped != 3 || len(h.take()) != 2*hopPairsMost {
		t.Errorf("dropped %d", h.dropped)
	}
}

// FuzzHopRows: whatever nodes write, there is a row for each hop, and counts add up.
func FuzzHopRows(f *testing.F) {
	f.Add([]byte{1, 2, 3}, int64(5), int64(9))
	f.Add([]byte{0, 0, 255, 255, 7}, int64(0), int64(-1))
	f.Fuzz(func(t *testing.T, nodes []byte, sent, received int64) {
		trace := traceOf(sent, received)
		for i, b := range nodes[:min(len(nodes), 24)] {
			trace.Nodes = append(trace.Nodes, hop(uint64(b), b, (sent+int64(b))*int64(i)*int64(b%7)))
		}
		trace.Overflow = len(nodes) > 24
		var h hopDelays
		h.add("a", trace)
		h.add("a", trace)
		rows := h.take()
		if len(rows) != len(trace.Nodes)+2 {
			t.Fatalf("%d rows of %d nodes", len(rows), len(trace.Nodes))
		}
		var sum, whole = flows.Distribution{}.Total, rows[0].Delay.Total
		for i, row := range rows {
			if row.Hop != i || row.Packets != 2 || row.Delay.Count > 2 || len(row.Path) > 24*12 {
				t.Errorf("row %d is %+v", i, row)
			}
			if i > 0 {
				sum = sum.Add(row.Delay.Total)
			}
		}
		if sent != 0 && uint64(sum.LowBits()) != uint64(whole.LowBits()) {
			t.Errorf("hops add up to %v, the whole to %v", sum, whole)
		}
	})
}
