package web

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure"
	rows "pillion.dev/measure/flows"
	"pillion.dev/measure/histogram"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server/live"
)

var update = flag.Bool("update", false, "write "+measuretest.FiguresFile)

// someRows are two flows of three seconds: one with delays around zero, as of clocks
// that disagree, one with a long tail, and a last row with losses alone.
func someRows() []rows.Row {
	random, epoch := rand.New(rand.NewPCG(1, 2)), epoch.Truncate(time.Minute)
	distribution := func(values []int64) rows.Distribution {
		var h histogram.Histogram
		least, most, sum := values[0], values[0], int64(0)
		for _, v := range values {
			h.Add(v)
			least, most, sum = min(least, v), max(most, v), sum+v
		}
		return rows.NewDistribution(uint64(len(values)), least, sum/int64(len(values)), most, h)
	}
	var all []rows.Row
	for second := range int64(3) {
		for port := range uint32(2) {
			n := 20 + random.IntN(60)
			var delays, variations []int64
			for i := range n {
				delay := int64(random.NormFloat64() * 2e3)
				if port == 1 {
					delay = int64(5e6 + random.ExpFloat64()*3e5)
				}
				if delays = append(delays, delay); i > 0 {
					variations = append(variations, delay-delays[i-1])
				}
			}
			r := rows.Row{
				End: epoch.Add(time.Duration(second+1) * time.Second), Interval: time.Second, Session: "s", Source: "a", Device: "eth0",
				Flow:             rows.Flow{Src: "192.0.2.1", Dst: "192.0.2.2", Proto: "udp", Sport: 1000 + port, Dport: 53},
				DestinationClock: rows.BoundOf(1000 * (second + 1)), SourceClock: rows.BoundOf(500),
			}
			r.Counts = rows.Counts{Packets: uint64(n), Bytes: uint64(100 * n), Expected: uint64(n) + 3, Lost: 3, Duplicated: 1, Reordered: 2, Late: 1}
			r.Delay, r.IPDV = distribution(delays), distribution(variations)
			r.IPDV.Histogram.Offsets = nil // the stream has none
			all = append(all, r)
		}
	}
	lossy := rows.Row{End: epoch.Add(3 * time.Second), Interval: time.Second, Session: "s", Source: "a", Device: "eth0", Flow: all[0].Flow}
	lossy.Counts = rows.Counts{Expected: 7, Lost: 7}
	return append(all, lossy)
}

func writeFigures(t *testing.T) {
	t.Helper()
	var f measuretest.Figures
	var total rows.Sum
	record := measuretest.Flows(t, someRows()...)
	for row, err := range rows.Rows("b", record) {
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]any{}
		for i, v := range row.Sample(nil) {
			name := measure.Flows.Fields[i].Name
			switch v.Type() {
			case measure.String:
				fields[name] = v.Text()
			case measure.Int64List:
				fields[name] = row.Delay.Histogram.Bounds
				if name == "ipdv_bounds_ns" {
					fields[name] = row.IPDV.Histogram.Bounds
				}
			case measure.Uint64List:
				fields[name] = v.List()
			case measure.Uint32, measure.Uint64:
				fields[name] = v.Uint64()
			case measure.Int64, measure.Time:
				fields[name] = v.Int64()
			}
		}
		f.Rows = append(f.Rows, fields)
		f.Windows = append(f.Windows, jsonOf(t, &archive.Window{Start: row.End.Add(-row.Interval), Sum: row.Sum}, true))
		total.Merge(&row.Sum)
	}
	f.Total = jsonOf(t, &archive.Window{Start: epoch.Truncate(time.Minute), Sum: total}, false)
	text, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(measuretest.FiguresFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

func jsonOf(t *testing.T, w *archive.Window, histograms bool) json.RawMessage {
	t.Helper()
	text, err := protojson.Marshal(windowMessage(w, histograms))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFigures: the API reports the same figures as all other interfaces, from the
// archive, live, and of one row. -update writes them.
func TestFigures(t *testing.T) {
	if *update {
		writeFigures(t)
	}
	f, all := measuretest.ReadFigures(t)
	compare := func(name string, got *pillionv1.Window, golden json.RawMessage) {
		t.Helper()
		want := &pillionv1.Window{}
		if err := protojson.Unmarshal(golden, want); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	for i := range all {
		compare("row", windowMessage(&archive.Window{Start: all[i].End.Add(-all[i].Interval), Sum: all[i].Sum}, true), f.Windows[i])
	}
	watch := live.NewWatch(archive.Selection{Source: "a", Destination: "b"}, 5*time.Second)
	if err := watch.Add(archive.Batch{Agent: "b", Record: measuretest.Flows(t, all...)}, epoch); err != nil {
		t.Fatal(err)
	}
	changed := watch.Changed()
	if len(changed) != 1 {
		t.Fatalf("%d windows", len(changed))
	}
	compare("live window", windowMessage(&changed[0], false), f.Total)
}
