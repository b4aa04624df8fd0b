package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/measure"
	"pillion.dev/session"
)

// recordBy builds a record of a schema from rows by name; what a row does not name is null.
func recordBy(t testing.TB, schema *measure.Schema, rows []map[string]any) arrow.RecordBatch {
	t.Helper()
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	defer builder.Release()
	for _, row := range rows {
		for i, field := range schema.Fields {
			switch v := row[field.Name].(type) {
			case nil:
				builder.Field(i).AppendNull()
			case string:
				builder.Field(i).(*array.StringBuilder).Append(v)
			case time.Time:
				builder.Field(i).(*array.TimestampBuilder).Append(arrow.Timestamp(v.UnixNano()))
			case int:
				switch b := builder.Field(i).(type) {
				case *array.Uint32Builder:
					b.Append(uint32(v))
				case *array.Uint64Builder:
					b.Append(uint64(v))
				case *array.Int64Builder:
					b.Append(int64(v))
				default:
					t.Fatalf("%s is %T", field.Name, b)
				}
			}
		}
	}
	record := builder.NewRecordBatch()
	t.Cleanup(record.Release)
	return record
}

// delayRows are those of a path, with these delays in us by hop from 1.
func delayRows(second int, name string, packets int, delays ...int) []map[string]any {
	sum := 0
	for _, delay := range delays {
		sum += delay
	}
	var rows []map[string]any
	for hop, delay := range append([]int{sum}, delays...) {
		uncertainty := 1000
		if hop == 0 {
			uncertainty = 1
		}
		rows = append(rows, map[string]any{
			"time": start.Add(time.Duration(second) * time.Second), "session": "s", "source": "a", "device": "eth0",
			"src": "10.0.1.1", "dst": "10.0.2.1", "path": name, "hop": hop, "interval_ns": int(time.Second),
			"packets": packets, "overflowed": 0, "delay_count": packets, "uncertainty_ns": uncertainty,
			"delay_min_ns": delay*1000 - 1, "delay_mean_ns": delay * 1000, "delay_p50_ns": delay * 1000, "delay_p99_ns": delay*1000 + 1, "delay_max_ns": delay*1000 + 2,
		})
	}
	return rows
}

func addDelays(t *testing.T, topology *Topology, rows []map[string]any) {
	t.Helper()
	if err := topology.AddDelays("b", recordBy(t, &measure.HopDelays, rows)); err != nil {
		t.Fatal(err)
	}
}

// TestIOAMPaths: rows of hop_delays are a path of identifiers with one-way delays beside the
// traced one; an agent is recognised by its identifier.
func TestIOAMPaths(t *testing.T) {
	topology, _ := newTopology(t)
	setHosts(topology, map[string]Host{
		"a": {ClockErrorNs: 100}, "b": {ClockErrorNs: 200, Boot: "x"}, "c": {IOAMID: 0x102, ClockErrorNs: 400, Boot: "x"},
		"d": {IOAMID: 0x109}, "e": {IOAMID: 0x109},
	})
	add(t, topology, "a", "b", result(0, "b", "r1 c b"))
	rows := slices.Concat(delayRows(1, "0x000101 0x000102", 90, 1000, 3000, 2000), delayRows(1, "0x000101 0x000109", 9, 1, 1, 1))
	rows = append(rows, delayRows(1, pathOther, 3)...)
	rows[3]["skipped"] = 2
	addDelays(t, topology, rows)
	graph := topology.Graph(Selection{Session: "s"}, nil)
	if len(graph.Paths) != 2 || graph.Paths[0].Kind != IOAM || graph.Paths[1].Kind != Traceroute {
		t.Fatalf("got %+v", graph.Paths)
	}
	p := graph.Paths[0]
	if got, want := strings.Join(p.Nodes, " "), "agent:a ioam:0x000101 agent:c agent:b"; got != want || !p.Reached || p.Protocol != "ioam" {
		t.Errorf("got %s, want %s", got, want)
	}
	if p.OtherPackets != 12 || p.IntervalNs != 1e9 || p.OneWay.Packets != 90 || p.OneWay.MeanNs != 6e6 || !p.Changed.Equal(start.Add(time.Second)) {
		t.Errorf("got %+v", p)
	}
	var got []string
	for _, h := range p.Hops {
		got = append(got, fmt.Sprint(h.TTL, h.OneWay.P50Ns, h.OneWay.UncertaintyNs, h.OneWay.ClockErrorNs, h.OneWay.ClockKnown, h.Skipped))
	}
	if want := []string{"1 1000000 1000 0 false 0", "2 3000000 1000 0 false 0", "3 2000000 1000 0 true 2"}; !slices.Equal(got, want) {
		t.Errorf("hops are %q, want %q", got, want)
	}
	if p.OneWay.ClockErrorNs != 300 || !p.OneWay.ClockKnown {
		t.Errorf("clocks of the ends: %+v", p.OneWay)
	}
	oneWay, rtt := map[string]int64{}, 0
	for _, e := range graph.Edges {
		if e.OneWay.Packets > 0 {
			oneWay[e.From+" "+e.To] = e.OneWay.P50Ns
		}
		if e.Measured {
			rtt++
		}
	}
	if len(oneWay) != 3 || oneWay["agent:a ioam:0x000101"] != 1e6 || oneWay["agent:c agent:b"] != 2e6 || rtt != 3 {
		t.Errorf("edges are %+v", graph.Edges)
	}
	for _, n := range graph.Nodes {
		if id := map[string]string{"agent:c": "0x000102", "ioam:0x000101": "0x000101"}[n.ID]; n.IOAM != id {
			t.Errorf("node %+v, want identifier %q", n, id)
		}
	}
}

// TestIOAMRows: what agents may send, valid or not, in one record or several.
func TestIOAMRows(t *testing.T) {
	at := func(second int, rows []map[string]any, change func(row map[string]any)) []map[string]any {
		for _, row := range rows {
			row["time"] = start.Add(time.Duration(second) * time.Second)
			change(row)
		}
		return rows
	}
	for _, row := range []struct {
		name  string
		rows  []map[string]any
		paths int
		fails bool
	}{
		{"whole", delayRows(1, "0x000101", 5, 1, 2), 1, false},
		{"no node", delayRows(1, "", 5, 1), 1, false},
		{"a node without a time", delayRows(1, "0x000101?", 5, 1, 2), 1, false},
		{"incomplete", delayRows(1, "0x000101", 5, 1, 2)[:2], 0, false},
		{"nobody sent it", at(1, delayRows(1, "0x000101", 5, 1, 2), func(row map[string]any) { row["source"] = "" }), 0, false},
		{"too many hops", delayRows(1, "0x000101", 5, 1, 2, 3), 1, true},
		{"a hop twice", append(delayRows(1, "0x000101", 5, 1, 2), delayRows(1, "0x000101", 5, 1, 2)...), 1, true},
		{"no identifier", delayRows(1, "r1", 5, 1, 2), 0, true},
		{"no address", at(1, delayRows(1, "", 5, 1), func(row map[string]any) { row["dst"] = "x" }), 0, true},
		{"long", delayRows(1, strings.Repeat("0x000101 ", 30), 5, 1), 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			topology, _ := newTopology(t)
			err := topology.AddDelays("b", recordBy(t, &measure.HopDelays, row.rows))
			if (err != nil) != row.fails || err != nil && !errors.Is(err, ErrTrace) {
				t.Errorf("got %v", err)
			}
			if graph := topology.Graph(Selection{}, nil); len(graph.Paths) != row.paths {
				t.Errorf("got paths %+v", graph.Paths)
			}
		})
	}
	topology, _ := newTopology(t)
	rows := delayRows(1, "0x000101 0x000102", 5, 1, 2, 3)
	for i := range rows {
		addDelays(t, topology, rows[i:i+1])
		if paths := topology.Graph(Selection{}, nil).Paths; (len(paths) == 1) != (i == len(rows)-1) {
			t.Errorf("after row %d: %+v", i, paths)
		}
	}
	if len(topology.partial) != 0 {
		t.Errorf("%d remain", len(topology.partial))
	}
	for i := range partialMost + 5 {
		addDelays(t, topology, delayRows(2+i, "0x000101", 5, 1, 2)[:1])
	}
	if len(topology.partial) > partialMost {
		t.Errorf("%d remain", len(topology.partial))
	}
}

// TestIOAMPathChanges: another sequence of nodes in two intervals is an event, one in which most
// packets take the same is none.
func TestIOAMPathChanges(t *testing.T) {
	topology, events := newTopology(t)
	setHosts(topology, map[string]Host{"c": {IOAMID: 0x103}})
	second := 0
	next := func(names ...string) {
		t.Helper()
		second++
		topology.now = func() time.Time { return start.Add(time.Duration(second) * time.Second) }
		var rows []map[string]any
		for i, name := range names {
			rows = append(rows, delayRows(second, name, 100-i, make([]int, len(strings.Fields(name))+1)...)...)
		}
		addDelays(t, topology, rows)
	}
	const was, is = "0x000101 0x000102", "0x000101 0x000103"
	for range 3 {
		next(was, is)
		next(was)
	}
	next(is)
	next(was)
	if len(*events) != 0 {
		t.Errorf("events %+v", *events)
	}
	next(is)
	next(is, was)
	if len(*events) != 1 {
		t.Fatalf("events %+v", *events)
	}
	e := (*events)[0]
	if want := "path from a to b (10.0.2.1, ioam) changed: was 0x000101 > 0x000102 > b, is 0x000101 > c > b"; e.Kind != "path-changed" ||
		e.Agent != "a" || e.Peer != "b" || e.Session != "s" || e.Message != want {
		t.Errorf("event %+v, want %q", e, want)
	}
}

// FuzzAddDelays: whatever an agent sends, the graph has all nodes and edges of its paths.
func FuzzAddDelays(f *testing.F) {
	f.Add("0x000101 0x000102", "10.0.2.1", 0, 5)
	f.Add("other", "::1", 3, -1)
	f.Fuzz(func(t *testing.T, name, address string, from, packets int) {
		topology := New(&record{}, 50_000)
		topology.now = func() time.Time { return start }
		rows := delayRows(1, name, packets, make([]int, min(len(strings.Fields(name))+1, 300))...)
		for _, row := range rows {
			row["dst"] = address
		}
		if from > 0 {
			rows = rows[min(from, len(rows)):]
		}
		_ = topology.AddDelays("b", recordBy(t, &measure.HopDelays, rows))
		graph := topology.Graph(Selection{}, nil)
		nodes := map[string]bool{}
		for _, n := range graph.Nodes {
			nodes[n.ID] = true
		}
		for _, p := range graph.Paths {
			if len(p.Nodes) != len(p.Hops)+1 || slices.ContainsFunc(p.Nodes, func(id string) bool { return !nodes[id] }) {
				t.Errorf("path %+v of nodes %v", p, nodes)
			}
			if _, err := netip.ParseAddr(p.Address); err != nil {
				t.Errorf("address %q", p.Address)
			}
		}
	})
}

// TestStagesJoin: stages of a router with an agent are those of the interfaces by which the path
// passes it, in an interval that overlaps with the path's.
func TestStagesJoin(t *testing.T) {
	stage := func(second int, input, output, name string, packets, mean int) map[string]any {
		return map[string]any{
			"time": start.Add(time.Duration(second) * time.Second), "session": "s", "input": input, "output": output, "stage": name,
			"interval_ns": int(time.Second), "packets": packets, "delay_mean_ns": mean, "delay_p50_ns": mean - 1, "delay_p99_ns": mean + 1,
		}
	}
	through := []session.Interface{
		{Name: "east", Addresses: []string{"10.0.1.9/24"}}, {Name: "west", Addresses: []string{"10.0.2.9/24"}}, {Name: "north", Addresses: []string{"192.0.2.1/24"}},
	}
	for _, row := range []struct {
		name       string
		interfaces []session.Interface
		stages     []map[string]any
		want       string // input>output stage packets mean...; ? where the interfaces are unknown
	}{
		{"none", through, nil, ""},
		{"by the devices", through, []map[string]any{
			stage(5, "east", "west", "output_queuing", 10, 300), stage(5, "east", "west", "input_queuing", 9, 100), stage(5, "east", "west", "hold", 9, 1),
			stage(5, "west", "east", "transit", 1000, 7), stage(5, "north", "west", "transit", 1000, 8),
		}, "east>west input_queuing 9 100 output_queuing 10 300"},
		{"unknown, although one is busier", nil, []map[string]any{stage(5, "east", "west", "transit", 10, 400), stage(5, "west", "east", "transit", 9, 300)}, "?"},
		{"unknown, although there is only one", nil, []map[string]any{stage(5, "east", "west", "transit", 10, 400)}, "?"},
		{"unknown, of an earlier interval", nil, []map[string]any{stage(3, "east", "west", "transit", 10, 400)}, ""},
		{"two outputs, one idle now", through[:1], []map[string]any{stage(5, "east", "west", "transit", 10, 400), stage(3, "east", "north", "transit", 9, 300)}, "?"},
		{"one output", through[:1], []map[string]any{stage(5, "east", "west", "transit", 10, 400), stage(5, "north", "west", "transit", 90, 300)}, "east>west transit 10 400"},
		{"a later interval", through, []map[string]any{stage(7, "east", "west", "transit", 10, 400)}, ""},
		{"an earlier interval", through, []map[string]any{stage(3, "east", "west", "transit", 10, 400)}, ""},
		{"the one that overlaps", through, []map[string]any{
			stage(3, "east", "west", "transit", 1, 100), stage(4, "east", "west", "transit", 2, 200), stage(5, "east", "west", "transit", 3, 300), stage(6, "east", "west", "transit", 4, 400),
		}, "east>west transit 3 300"},
		{"another session", through, []map[string]any{stage(5, "east", "west", "transit", 3, 300), func() map[string]any {
			other := stage(5, "east", "west", "transit", 4, 400)
			other["session"] = "t"
			return other
		}()}, "east>west transit 3 300"},
		{"too many pairs", through, []map[string]any{stage(5, "", "", "transit", 3, 300)}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			topology, _ := newTopology(t)
			setHosts(topology, map[string]Host{"c": {IOAMID: 0x102, Interfaces: row.interfaces}})
			addDelays(t, topology, delayRows(5, "0x000102", 90, 1000, 2000))
			if row.stages != nil {
				if err := topology.AddStages("c", recordBy(t, &measure.Router, row.stages)); err != nil {
					t.Fatal(err)
				}
			}
			hops := topology.Graph(Selection{}, nil).Paths[0].Hops
			if len(hops[1].Stages) > 0 {
				t.Errorf("stages of the destination: %+v", hops[1])
			}
			var words []string
			if h := hops[0]; len(h.Stages) > 0 {
				words = append(words, h.Input+">"+h.Output)
				for _, s := range h.Stages {
					words = append(words, fmt.Sprint(s.Stage, " ", s.Packets, " ", s.MeanNs))
				}
			}
			if hops[0].StagesUnknown {
				words = append(words, "?")
			}
			if got := strings.Join(words, " "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestStagesOfBothDirections: of a router between two others without an agent, whose identifiers
// in packets name no interface, each direction has its own stages if both have the same traffic. A
// traceroute between the same addresses says which interfaces they pass; without it there are none.
func TestStagesOfBothDirections(t *testing.T) {
	through := []session.Interface{{Name: "r1", Addresses: []string{"10.0.3.1/24", "fe80::1/64"}}, {Name: "r3", Addresses: []string{"10.0.4.1/24", "fe80::1/64"}}}
	const forth, back = "r1>r3 100 false", "r3>r1 200 false"
	for _, row := range []struct {
		name        string
		forth, back []string // addresses of a traceroute, none: there is none
		want        string   // in each direction: input>output, mean, whether the interfaces are unknown
	}{
		{"both traced", []string{"10.0.1.9", "10.0.3.1", "10.0.4.9", "10.0.2.1"}, []string{"10.0.2.9", "10.0.4.1", "10.0.3.9", "10.0.1.1"}, forth + ", " + back},
		{"one traced", nil, []string{"10.0.2.9", "10.0.4.1", "10.0.3.9", "10.0.1.1"}, "> 0 true, " + back},
		{"silent behind it", []string{"10.0.1.9", "10.0.3.1", "", "10.0.2.1"}, nil, forth + ", > 0 true"},
		{"replies on the way back only", []string{"10.0.1.9", "10.0.4.1", "10.0.4.9", "10.0.2.1"}, nil, "> 0 false, > 0 true"},
		{"silent", []string{"10.0.1.9", "", "10.0.4.9", "10.0.2.1"}, nil, "> 0 true, > 0 true"},
		{"not traced", nil, nil, "> 0 true, > 0 true"},
	} {
		t.Run(row.name, func(t *testing.T) {
			topology, _ := newTopology(t)
			setAgents(topology, map[netip.Addr]string{
				netip.MustParseAddr("10.0.1.1"): "a", netip.MustParseAddr("10.0.2.1"): "b", netip.MustParseAddr("10.0.3.1"): "c", netip.MustParseAddr("10.0.4.1"): "c",
			})
			setHosts(topology, map[string]Host{"c": {IOAMID: 0x102, Interfaces: through}})
			rows := delayRows(5, "0x000101 0x000102 0x000103", 90, 1000, 3000, 2000, 1000)
			addDelays(t, topology, rows)
			for _, r := range rows {
				r["source"], r["src"], r["dst"], r["path"] = "b", "10.0.2.1", "10.0.1.1", "0x000103 0x000102 0x000101"
			}
			if err := topology.AddDelays("a", recordBy(t, &measure.HopDelays, rows)); err != nil {
				t.Fatal(err)
			}
			for ends, hops := range map[string][]string{"a b": row.forth, "b a": row.back} {
				if source, destination, _ := strings.Cut(ends, " "); hops != nil {
					traced := session.TraceResult{Time: start, Source: addresses[source], Address: addresses[destination], Protocol: "udp", Reached: true}
					for i, address := range hops {
						traced.Hops = append(traced.Hops, session.TraceHop{TTL: i + 1, Address: address, Sent: 1})
					}
					add(t, topology, source, destination, traced)
				}
			}
			var stages []map[string]any
			for i, pair := range [][2]string{{"r1", "r3"}, {"r3", "r1"}} {
				stages = append(stages, map[string]any{
					"time": start.Add(5 * time.Second), "session": "s", "input": pair[0], "output": pair[1], "stage": "transit",
					"interval_ns": int(time.Second), "packets": 10, "delay_mean_ns": 100 * (i + 1),
				})
			}
			if err := topology.AddStages("c", recordBy(t, &measure.Router, stages)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range topology.Graph(Selection{}, nil).Paths {
				if p.Kind == IOAM {
					mean := int64(0)
					for _, s := range p.Hops[1].Stages {
						mean += s.MeanNs
					}
					got = append(got, fmt.Sprint(p.Hops[1].Input, ">", p.Hops[1].Output, " ", mean, " ", p.Hops[1].StagesUnknown))
				}
			}
			if strings.Join(got, ", ") != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestStagesBesideTraceroute: a traced path shows the last stages, however long ago the trace was.
func TestStagesBesideTraceroute(t *testing.T) {
	for second, want := range map[int]bool{-70: false, 20: true, 1000: false} {
		topology, _ := newTopology(t)
		setHosts(topology, map[string]Host{"c": {Interfaces: []session.Interface{{Name: "east", Addresses: []string{"10.0.3.1/24"}}}}})
		add(t, topology, "a", "b", result(-time.Hour, "b", "c b"))
		err := topology.AddStages("c", recordBy(t, &measure.Router, []map[string]any{{
			"time": start.Add(time.Duration(second) * time.Second), "session": "", "input": "east", "output": "west", "stage": "transit",
			"interval_ns": int(time.Second), "packets": 1, "delay_mean_ns": 5,
		}}))
		if err != nil {
			t.Fatal(err)
		}
		if got := topology.Graph(Selection{}, nil).Paths[0].Hops[0]; (len(got.Stages) == 1) != want || got.StagesUnknown {
			t.Errorf("stages of second %d: %+v", second, got)
		}
	}
}
