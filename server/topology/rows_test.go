package topology

import (
	"errors"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// row is a row of hops, in the order of the schema behind time, rtt_ns left out.
type row struct {
	minute                            int64
	session, peer, src, dst, protocol string
	ttl                               uint32
	address                           string
	reached                           bool
}

func recordOf(t *testing.T, rows []row) arrow.RecordBatch {
	t.Helper()
	builder := array.NewRecordBuilder(memory.DefaultAllocator, measure.Hops.Arrow())
	defer builder.Release()
	for _, r := range rows {
		builder.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(start.UnixNano() + r.minute*60e9))
		for i, text := range []string{r.session, r.peer, r.src, r.dst, r.protocol} {
			if text == "" {
				builder.Field(i + 1).AppendNull()
			} else {
				builder.Field(i + 1).(*array.StringBuilder).Append(text)
			}
		}
		builder.Field(6).(*array.Uint32Builder).Append(r.ttl)
		if r.address == "" {
			builder.Field(7).AppendNull()
			builder.Field(8).AppendNull()
		} else {
			builder.Field(7).(*array.StringBuilder).Append(r.address)
			builder.Field(8).(*array.Int64Builder).Append(int64(r.ttl) * 1000)
		}
		builder.Field(9).(*array.Uint32Builder).Append(3)
		builder.Field(10).(*array.Uint32Builder).Append(2)
		builder.Field(11).(*array.BooleanBuilder).Append(r.reached)
	}
	record := builder.NewRecordBatch()
	t.Cleanup(record.Release)
	return record
}

func TestAddRows(t *testing.T) {
	topology, _ := newTopology(t)
	rows := []row{
		{0, "s", "b", "10.0.1.1", "10.0.2.1", "udp", 1, "192.0.2.1", true},
		{0, "s", "c", "10.0.1.1", "10.0.3.1", "udp", 1, "", false},
		{0, "s", "b", "10.0.1.1", "10.0.2.1", "udp", 2, "", true},
		{0, "s", "b", "10.0.1.1", "10.0.2.1", "icmp", 1, "10.0.2.1", true},
		{0, "s", "b", "10.0.1.1", "10.0.2.1", "udp", 3, "10.0.2.1", true},
		{0, "", "", "10.0.1.1", "198.51.100.1", "udp", 1, "192.0.2.2", false},
		{0, "s", "c", "10.0.1.1", "10.0.3.1", "udp", 2, "192.0.2.2", false},
	}
	if err := topology.AddRows("a", recordOf(t, rows[:4])); err != nil {
		t.Fatal(err)
	}
	if err := topology.AddRows("a", recordOf(t, rows[4:])); err != nil {
		t.Fatal(err)
	}
	graph := topology.Graph(Selection{Session: "s"}, nil)
	checkWhole(t, graph)
	var got []string
	for _, p := range graph.Paths {
		text := p.Source + " " + p.Destination + " " + p.Protocol
		for _, h := range p.Hops {
			text += " " + or(h.Address, "*")
			if (h.RTT > 0) != (h.Address != "") || h.Sent != 3 || h.Answers != 2 {
				t.Errorf("got hop %+v", h)
			}
		}
		if p.Reached {
			text += " reached"
		}
		got = append(got, text)
	}
	want := []string{
		"a b icmp 10.0.2.1 reached",
		"a b udp 192.0.2.1 * 10.0.2.1 reached",
		"a c udp * 192.0.2.2",
	}
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if got := len(topology.Graph(Selection{}, nil).Paths); got != 4 {
		t.Errorf("got %d paths with those on demand, want 4", got)
	}
}

func TestAddBadRows(t *testing.T) {
	topology, _ := newTopology(t)
	good := row{0, "s", "b", "10.0.1.1", "10.0.2.1", "udp", 1, "10.0.2.1", true}
	bad := good
	bad.peer, bad.ttl = "c", 0
	if err := topology.AddRows("a", recordOf(t, []row{bad, good})); !errors.Is(err, ErrTrace) {
		t.Errorf("got %v, want %v", err, ErrTrace)
	}
	if got := len(topology.Graph(Selection{}, nil).Paths); got != 1 {
		t.Errorf("got %d paths, want the valid one", got)
	}
	other := array.NewRecordBuilder(memory.DefaultAllocator, measure.Clock.Arrow())
	defer other.Release()
	record := other.NewRecordBatch()
	defer record.Release()
	if err := topology.AddRows("a", record); !errors.Is(err, ErrTrace) {
		t.Errorf("rows of another stream: got %v", err)
	}
}

// TestRestore: a server that starts has the last route of each path, and when it was first seen, from the archive.
func TestRestore(t *testing.T) {
	topology, events := newTopology(t)
	topology.now = func() time.Time { return start.Add(10 * time.Minute) }
	trace := func(minute int64, router string) []row {
		return []row{
			{minute, "s", "b", "10.0.1.1", "10.0.2.1", "udp", 2, "10.0.2.1", true},
			{minute, "s", "b", "10.0.1.1", "10.0.2.1", "udp", 1, router, true},
		}
	}
	restore := func(rows ...row) {
		t.Helper()
		record := withAgent(t, recordOf(t, rows), "a")
		defer record.Release()
		if err := topology.Restore(record); err != nil {
			t.Fatal(err)
		}
	}
	last := trace(9, "192.0.2.2")
	restore(last[0]) // the rest is in the next record
	restore(append([]row{last[1]}, append(trace(8, "192.0.2.2"), trace(7, "192.0.2.2")...)...)...)
	restore(append(trace(6, "192.0.2.1"), trace(5, "192.0.2.2")...)...)
	graph := topology.Graph(Selection{Session: "s"}, nil)
	checkWhole(t, graph)
	if len(graph.Paths) != 1 {
		t.Fatalf("got %d paths, want 1", len(graph.Paths))
	}
	p := graph.Paths[0]
	if len(p.Hops) != 2 || p.Hops[0].Address != "192.0.2.2" || !p.Time.Equal(start.Add(9*time.Minute)) || !p.Changed.Equal(start.Add(7*time.Minute)) {
		t.Errorf("got %+v", p)
	}
	if len(*events) > 0 {
		t.Errorf("got events %v of changes before the start", *events)
	}
	for minute := range int64(2) { // a change while the server was away is confirmed by the second trace
		if err := topology.AddRows("a", recordOf(t, trace(10+minute, "192.0.2.3"))); err != nil {
			t.Fatal(err)
		}
	}
	if len(*events) != 1 || (*events)[0].Kind != "path-changed" {
		t.Errorf("got events %v, want one change", *events)
	}
	restore(trace(9, "192.0.2.1")...)
	if p := topology.Graph(Selection{}, nil).Paths[0]; p.Hops[0].Address != "192.0.2.3" {
		t.Errorf("got %+v: a later trace gave way to one of the archive", p)
	}
}

// withAgent adds the column of the agent that rows of the archive have.
func withAgent(t *testing.T, record arrow.RecordBatch, agent string) arrow.RecordBatch {
	t.Helper()
	names := array.NewStringBuilder(memory.DefaultAllocator)
	defer names.Release()
	for range record.NumRows() {
		names.Append(agent)
	}
	column := names.NewArray()
	defer column.Release()
	schema := arrow.NewSchema(append(record.Schema().Fields(), arrow.Field{Name: archive.AgentColumn, Type: arrow.BinaryTypes.String}), nil)
	return array.NewRecordBatch(schema, append(record.Columns(), column), record.NumRows())
}
