package routerreport

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/outfile"
	"pillion.dev/probe/router"
)

// observed is the distribution of some times, as the kernel would keep it.
func observed(times ...uint64) router.Distribution {
	d := router.Distribution{MinNs: math.MaxUint64}
	for _, ns := range times {
		d.Add(int64(ns))
		d.Count++
		d.SumNs += ns
		d.MinNs, d.MaxNs = min(d.MinNs, ns), max(d.MaxNs, ns)
	}
	return d
}

// TestSeriesIsBounded: a long profile keeps intervals of all its time.
func TestSeriesIsBounded(t *testing.T) {
	var s series
	const all = 5 * seriesLimit
	for i := range all {
		if err := s.add(Interval{DurationS: float64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.intervals) >= seriesLimit || len(s.intervals) < seriesLimit/3 {
		t.Errorf("%d intervals", len(s.intervals))
	}
	for i, text := range s.intervals {
		var kept struct {
			Number float64 `json:"duration_s"`
		}
		if err := json.Unmarshal(text, &kept); err != nil {
			t.Fatal(err)
		}
		if want := float64((i + 1) * s.stride); kept.Number != want {
			t.Fatalf("interval %d is number %v, want %v", i, kept.Number, want)
		}
	}
}

// reportFile is a profile as the report draws it; ui/report/router.test.tsx draws it.
const reportFile = "testdata/report.json"

var update = flag.Bool("update", false, "write "+reportFile)

// TestReport writes every part of a report, with names that could be markup.
func TestReport(t *testing.T) {
	times := [router.Stages]router.Distribution{
		observed(1000, 2000, 40_000_000), observed(500, 600, 700), observed(90, 80, 70), observed(1590, 2680, 40_000_770), observed(5000),
	}
	pairs := []router.Pair{
		{In: router.Interface{Index: 1, Name: "<in>"}, Out: router.Interface{Index: 2, Name: "out"}, Stages: times, Packets: 3, Bytes: 300, Merged: 1},
		{Stages: times, Packets: 3, Bytes: 100},
	}
	for i := range 8 { // as many as have charts
		pairs = append(pairs, router.Pair{In: router.Interface{Index: 3, Name: "x"}, Out: router.Interface{Index: 4 + i, Name: "y"}, Stages: times, Packets: 3})
	}
	sizes := make([]uint64, 1024)
	sizes[1], sizes[700] = 5, 5
	begin := time.Unix(1_700_000_000, 0)
	now := router.Snapshot{
		Time: begin.Add(2 * time.Second), Pairs: pairs,
		Account: router.Account{
			Seen: 10, Forwarded: 6, Dropped: 2, DropReasons: map[string]uint64{"NETFILTER_DROP nf_hook_slow": 2}, Lost: 1,
			LostReasons: map[string]uint64{"full": 1}, Unexplained: -1, Skipped: map[string]uint64{"filter": 4}, Own: 7,
		},
		Queues: []router.Queue{{Interface: router.Interface{Index: 1, Name: "<in>"}, Input: true, Arrivals: 10, Departures: 10, MaxDepth: 3,
			IntegralNs: 1e9, WaitedNs: 1e9, Sizes: sizes, Compared: 10, FoundSum: 12, KernelSum: 13}},
		Breaks: router.Breaks{Count: 2, TotalNs: 400_000, LongNs: 300_000, Causes: map[string]uint64{"irq": 2}, Lengths: observed(100_000, 300_000), Between: sizes},
		Costs:  []router.Cost{{Program: "router_free", Runs: 10, Time: time.Microsecond}, {Program: "router_idle"}},
	}
	var over series
	for _, i := range []Interval{
		newInterval(begin, router.Snapshot{Time: begin}, now, time.Second),
		newInterval(begin, now, router.Snapshot{Time: begin.Add(3 * time.Second), Pairs: pairs}, 0),
	} {
		if err := over.add(i); err != nil {
			t.Fatal(err)
		}
	}
	summary := newSummary(begin, 2*time.Second, time.Second, now)
	summary.Breaks.Longest = []router.Break{{Start: begin.UTC(), LastNs: 300_000, Task: "<task>", TaskNs: 200_000, Cause: "scheduled"}}
	summary.Environment = Environment{Namespace: "<r>", Causes: true, Devices: []Device{{Name: "<in>", MTU: 1500, Up: true}}}
	path := filepath.Join(t.TempDir(), "r.html")
	p, err := createPage(t.Context(), outfile.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	draw := func(w io.Writer, title, text string, profile any) error {
		if !strings.HasPrefix(title, "Router profile of namespace <r>, 2023-11-1") || !strings.Contains(text, "UNEXPLAINED -1") || !strings.Contains(text, "irq 2") {
			t.Errorf("title %q, text %s", title, text)
		}
		return json.NewEncoder(w).Encode(profile)
	}
	if err := p.write(draw, summary, over); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(reportFile, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(reportFile); err != nil || !bytes.Equal(text, want) {
		t.Errorf("%v: the report differs from %s", err, reportFile)
	}
}
