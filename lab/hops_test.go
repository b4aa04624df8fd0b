package lab_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// tracedPath is a path of three stock routers, of which one has an agent; the server is beside it.
// The first is set up by the commands in docs/howto/hop-by-hop.md.
const tracedPath = `
hosts:
  a: {}
  r1: {forward: true}
  r2: {forward: true, ioam: 0x102}
  r3: {forward: true, ioam: 0x103}
  b: {}
  noc: {}
links:
  - {ends: [a, r1], emulate: {seed: 1, delay: 1ms}}
  - {ends: [r1, r2], emulate: {seed: 2, delay: 3ms}}
  - {ends: [r2, r3], emulate: {seed: 3, delay: 2ms}}
  - {ends: [r3, b], emulate: {seed: 4, delay: 1ms}}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
  - {ends: [r2, noc]}
service: {server: noc, agents: [a, b, r2]}
`

// links of tracedPath in the order of the path, each the hop that ends at its far end.
var tracedLinks = []struct {
	link, from string
	delay      time.Duration
}{{"a-r1", "a", time.Millisecond}, {"r1-r2", "r1", 3 * time.Millisecond}, {"r2-r3", "r2", 2 * time.Millisecond}, {"r3-b", "r3", time.Millisecond}}

// hopRow is a row of hop_delays.
type hopRow struct {
	Time                                string
	Hop                                 int
	Node, Previous                      string
	Packets, Count, Min, Mean, Half, Of int64
}

func (b *serviceBed) hopRows() []hopRow {
	b.t.Helper()
	var rows []hopRow
	text := b.pillion("query", "-o", "json", `SELECT time::VARCHAR AS time, hop::INTEGER AS hop, coalesce(node, '') AS node, coalesce(previous, '') AS previous,
		packets::BIGINT AS packets, delay_count::BIGINT AS count, delay_min_ns AS min, delay_mean_ns AS mean, delay_p50_ns AS half, uncertainty_ns AS of
		FROM hop_delays WHERE session = 's' AND path = '0x000101 0x000102 0x000103' ORDER BY time, hop`)
	decoder := json.NewDecoder(strings.NewReader(text))
	for decoder.More() {
		var row hopRow
		if err := decoder.Decode(&row); err != nil {
			b.t.Fatalf("%v in %s", err, text)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestHopsThroughStockRouters: a session with hops ioam has one-way delays of each hop, which add
// up to that of the path; losses are counted as without. A router with an agent adds what happens
// inside it.
func TestHopsThroughStockRouters(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, tracedPath)
	b.exec("r1", "sh", "-e", "-c", ofClass(t, "docs/howto/hop-by-hop.md", "ioam-router")) // as an administrator does it
	hopsThroughStockRouters(b, 400, 200)
	b.throughRouters()
}

// sendEvenly sends packets one by one.
func (s *stream) sendEvenly(count, rate int) {
	pace := time.NewTicker(time.Second / time.Duration(rate))
	defer pace.Stop()
	for range count {
		<-pace.C
		s.sendNext()
	}
}

// hopsThroughStockRouters sends packets at a rate, and returns the rows of their hops.
func hopsThroughStockRouters(b *serviceBed, packets, rate int) []hopRow {
	t := b.t
	b.running("s", "--from", "a", "--to", "b", "--family", "ipv6", "--hops", "ioam", "--hops-gap", "10ms", "--router", "r2")
	flow := b.open("a", "b", netip.MustParseAddrPort("[fd77:0:0:4::2]:9000"))
	flow.sendEvenly(packets, rate)
	flow.receive(uint64(packets))
	b.reaches(int64(packets), "SELECT sum(expected) FROM flows WHERE session = 's' AND dport = 9000")
	if lost := b.number("SELECT sum(lost + duplicated + reordered) FROM flows WHERE session = 's'"); lost != 0 {
		t.Errorf("%d packets count as lost, duplicated or reordered", lost)
	}
	least := int64(packets) / 4 // of two to three packets in the gap one is traced; the machine may be busy
	eventually(t, "the delays of hops", func() bool {
		n, err := b.tryNumber("SELECT sum(packets) FROM hop_delays WHERE session = 's' AND hop = 4")
		return err == nil && n >= least
	})
	rows := b.hopRows()
	traced := int64(0)
	for i := 0; i+5 <= len(rows); i += 5 {
		whole, sum := rows[i], int64(0)
		traced += whole.Packets
		var nodes []string
		for hop, row := range rows[i+1 : i+5] {
			sum += row.Mean
			nodes = append(nodes, row.Previous+">"+row.Node)
			if row.Hop != hop+1 || row.Time != whole.Time || row.Count != whole.Packets || row.Of != 1000 {
				t.Errorf("hop %d of %+v is %+v", hop+1, whole, row)
			}
			if least := int64(tracedLinks[hop].delay) - 1000; row.Min < least {
				t.Errorf("hop %d took %d ns over a link of %v", hop+1, row.Min, tracedLinks[hop].delay)
			}
		}
		if want := []string{">0x000101", "0x000101>0x000102", "0x000102>0x000103", "0x000103>"}; !slices.Equal(nodes, want) || whole.Hop != 0 {
			t.Errorf("hops are %q, want %q", nodes, want)
		}
		if off := sum - whole.Mean; off < -4 || off > 4 { // each mean is rounded
			t.Errorf("hops add up to %d ns, the path takes %d ns", sum, whole.Mean)
		}
	}
	if most := int64(packets); traced < least || traced > most {
		t.Errorf("%d of %d packets were traced", traced, packets)
	}
	t.Logf("%d of %d packets were traced", traced, packets)
	return rows
}

// throughRouters checks the path in the topology.
func (b *serviceBed) throughRouters() {
	b.t.Helper()
	var graph struct {
		Paths []struct {
			Source, Destination, Kind string
			Nodes                     []string
			Hops                      []struct {
				OneWay struct{ P50Ns, UncertaintyNs json.Number }
				Stages []struct{ Stage string }
				Input  string
				Output string
			}
		}
	}
	found := ""
	eventually(b.t, "the path with the stages of its router", func() bool {
		if err := json.Unmarshal([]byte(b.pillion("topology", "-o", "json")), &graph); err != nil {
			b.t.Fatal(err)
		}
		for _, p := range graph.Paths {
			if p.Kind != "ioam" || len(p.Hops) != 4 {
				continue
			}
			found = fmt.Sprint(p.Source, p.Nodes, p.Hops[1].Input, p.Hops[1].Output, len(p.Hops[1].Stages) > 0)
		}
		return found == "a[agent:a ioam:0x000101 agent:r2 ioam:0x000103 agent:b]r1r3true"
	})
	b.t.Log(found)
}

// hopsOf checks that the hops of each path and interval add up where they are of the same packets,
// and returns the packets by path.
func (p *runningProbe) hopsOf() map[string]uint64 {
	p.t.Helper()
	packets := map[string]uint64{}
	for i := 0; i < len(p.hops); {
		whole, sum, last, same := p.hops[i], int64(0), i+1, true
		for ; last < len(p.hops) && p.hops[last].Hop == last-i; last++ {
			hop := p.hops[last]
			sum += hop.Delay.Mean
			same = same && hop.Delay.Count == whole.Delay.Count
			if hop.Packets != whole.Packets || hop.Path != whole.Path || hop.Src != whole.Src {
				p.t.Errorf("hop %+v of %+v", hop, whole)
			}
		}
		hops := last - i - 1
		// Each mean is rounded. Those of packets without a time of the source are not those of the path.
		if off := sum - whole.Delay.Mean; whole.Hop != 0 || hops == 0 || same && max(off, -off) > int64(hops) {
			p.t.Errorf("%d hops add up to %d ns, the path takes %+v", hops, sum, whole)
		}
		packets[whole.Path] += whole.Packets
		i = last
	}
	return packets
}

// TestHopsByHand: a source and a destination by hand have the delays of hops beside the figures
// of flows, which are those without.
func TestHopsByHand(t *testing.T) {
	b := up(t, stockRouters)
	d := b.probe("b", "destination", "r3", "--hops", "ioam", "--interval", "100ms")
	s := b.probe("a", "source", "r1", "--hops", "ioam", "--hops-gap", "10ms", "--encoding", "udp-option")
	const count = 120
	flow := b.open("a", "b", netip.MustParseAddrPort("[fd77:0:0:4::2]:9000"))
	begin := time.Now()
	flow.sendEvenly(count, 200)
	flow.receive(count)
	most := uint64(time.Since(begin)/(10*time.Millisecond)) + 1
	marked, read := both(s, d)
	if marked.Marked != count || read.Packets != count || read.Expected != count || read.Restored+read.Kept != count || read.Lost+read.Rejected != 0 {
		t.Errorf("marked %+v, read %+v", marked, read)
	}
	if read.Traces.Read < count/5 || read.Traces.Read > most || read.Traces.Dropped+read.Traces.Malformed != 0 {
		t.Errorf("traces of %d packets are %+v, want at most %d", count, read.Traces, most)
	}
	const path = "0x000101 0x000102 0x000103"
	if packets := d.hopsOf(); packets[path] != read.Traces.Read || len(packets) != 1 {
		t.Errorf("packets by path are %v, want %d", packets, read.Traces.Read)
	}
	for _, hop := range d.hops {
		if least := int64(3*time.Millisecond) - hop.Uncertainty; hop.Node == "0x000103" && hop.Delay.Min < least {
			t.Errorf("%+v over a link of 3ms", hop)
		}
	}
}
