package duckdb

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"pillion.dev/archive"
)

// flowOf changes the flow of a row.
func flowOf(r flowRow, src, dst, proto string, sport, dport int) flowRow {
	r["src"], r["dst"], r["proto"], r["sport"], r["dport"] = src, dst, proto, sport, dport
	return r
}

func flowsOf(t testing.TB, a *Archive, change func(*archive.Flows)) archive.FlowsAnswer {
	t.Helper()
	question := archive.Flows{From: epoch, To: epoch.Add(time.Minute), Granularity: "flow", Order: "packets", Limit: 10}
	change(&question)
	answer, err := a.Flows(t.Context(), question)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// someFlows: 1 has the most packets, 2 the largest delay and loss, 3 is the last.
func someFlows(t testing.TB) *Archive {
	t.Helper()
	lossy := flowOf(second(2, "s", "a", 20, 1<<22), "192.0.2.1", "192.0.2.2", "tcp", 2, 443)
	lossy["lost"], lossy["delay_p50_ns"], lossy["delay_p99_ns"], lossy["delay_max_ns"] = 10, 555, 666, 1<<41
	return flowArchive(t, "b",
		flowOf(second(1, "s", "a", 50, 1<<20), "192.0.2.1", "192.0.2.2", "udp", 1, 443), flowOf(second(2, "s", "a", 60, 1<<21), "192.0.2.1", "192.0.2.2", "udp", 1, 443), lossy,
		flowOf(second(9.5, "s", "a", 5, 1<<19), "2001:db8::1", "2001:db8::2", "udp", 3, 53),
		flowOf(second(1, "t", "a", 20, 1<<19), "192.0.2.9", "192.0.2.2", "udp", 3, 53))
}

// TestFlow: all figures of a flow, computed by hand.
func TestFlow(t *testing.T) {
	answer := flowsOf(t, someFlows(t), func(*archive.Flows) {})
	one, two := answer.Flows[0], answer.Flows[1]
	if one.Src != "192.0.2.1" || one.Dst != "192.0.2.2" || one.Proto != "udp" || !one.Start.Equal(epoch) || !one.Last.Equal(epoch.Add(2*time.Second)) ||
		one.Lost != 2 || one.Delay.Count != 110 {
		t.Errorf("got %+v", one)
	}
	// The value of rank 55 of 110 is the 5th of 60 in [2^21, 2^21 + 2^16).
	if want := math.Floor(1<<21 + 4.5/60*(1<<16)); math.Abs(one.Delay.Quantile(0.5)-want) > 1e-3 {
		t.Errorf("median %v, want %v", one.Delay.Quantile(0.5), want)
	}
	if got := two.Delay.Quantile(0.5); got < 1<<22 || got >= 1<<22+1<<17 {
		t.Errorf("one row: median %v", got)
	}
}

// TestFlowsSampled: sums stay exact; a flow without a sampled row still has quantiles.
func TestFlowsSampled(t *testing.T) {
	a := open(t, filepath.Join(t.TempDir(), "a"), Options{})
	batch := longBatch(t, 0, 0, 4000)
	store(t, a, batch)
	whole := func(q *archive.Flows) { q.To, q.Limit = epoch.Add(4000*time.Second), 100 }
	all, some := flowsOf(t, a, whole), flowsOf(t, a, func(q *archive.Flows) { whole(q); q.Sample = 400 })
	hardly := flowsOf(t, a, func(q *archive.Flows) { whole(q); q.Sample = 1 })
	if all.Sampled != 1 || some.Sampled != 10 || len(all.Flows) != 50 || len(some.Flows) != 50 || hardly.Sampled < 3999 {
		t.Fatalf("one in %d, %d, %d of %d, %d flows", all.Sampled, some.Sampled, hardly.Sampled, len(all.Flows), len(some.Flows))
	}
	for i, f := range some.Flows {
		want := all.Flows[i]
		if f.Sport != want.Sport || f.Packets != want.Packets || math.Abs(f.Delay.Quantile(0.5)/want.Delay.Quantile(0.5)-1) > 0.2 || math.IsNaN(hardly.Flows[i].Delay.Quantile(0.5)) {
			t.Errorf("got %+v, want %+v", f, want)
		}
	}
}

// TestManyFlows: flows beyond the limit are counted, and those within it have their histograms, named in a
// statement or, if they are many, chosen again.
func TestManyFlows(t *testing.T) {
	const all = 1500
	var rows []flowRow
	for i := range all {
		rows = append(rows, flowOf(second(1, "s", "a", 1+i, 1<<20), "192.0.2.1", "192.0.2.2", "udp", 1+i, 443))
	}
	a := flowArchive(t, "b", rows...)
	for _, row := range []struct {
		name   string
		change func(*archive.Flows)
		read   int
		found  int64
	}{
		{"few", func(q *archive.Flows) { q.Limit = 20 }, 20, all},
		{"many", func(q *archive.Flows) { q.Limit = 1200 }, 1200, all},
		{"searched", func(q *archive.Flows) { q.Limit, q.Search = 5000, "192.0.2.1:1" }, 0, 0}, // all ports that begin with 1
		{"of a search, by a quantile", func(q *archive.Flows) { q.Limit, q.Search, q.Order = 5, "192.0.2.1:99", "p99" }, 5, 11},
	} {
		answer := flowsOf(t, a, row.change)
		if row.read == 0 {
			for i := range all {
				if text := strconv.Itoa(1 + i); text[0] == '1' {
					row.read++
					row.found++
				}
			}
		}
		if len(answer.Flows) != row.read || answer.Found != row.found {
			t.Errorf("%s: %d flows of %d, want %d of %d", row.name, len(answer.Flows), answer.Found, row.read, row.found)
		}
		for _, f := range answer.Flows {
			if f.Packets != uint64(f.Sport) || f.Delay.Histogram.Counts == nil || f.Delay.Count != f.Packets || math.IsNaN(f.Delay.Quantile(0.5)) {
				t.Errorf("%s: got %+v", row.name, f)
			}
		}
	}
}
