package routerreport

import (
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

func TestHistogram(t *testing.T) {
	spread := make([]uint64, 0, 1000)
	for i := range uint64(1000) {
		spread = append(spread, i*100)
	}
	tests := map[string]struct {
		times        []uint64
		width, bound float64
		beyond       uint64
	}{
		"narrow":          {[]uint64{1500, 1600, 1700}, .01, 2, 0},
		"evenly spread":   {spread, 1, 150, 0},
		"one far away":    {append(spread[:900:900], 9_000_000), 2, 300, 1},
		"wide":            {[]uint64{1_000_000, 2_000_000, 3_000_000}, 20, 4000, 0},
		"milliseconds":    {[]uint64{5_000_000, 12_000_000, 30_000_000}, 200, 40000, 0},
		"seconds":         {[]uint64{500_000_000, 600_000_000}, 5000, 800000, 0},
		"a single packet": {[]uint64{700}, .005, .8, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := newBars(newTimes(observed(test.times...)))
			sum := float64(h.beyond) / float64(len(test.times))
			for _, part := range h.parts {
				sum += part
			}
			if math.Abs(sum-1) > 1e-6 {
				t.Errorf("parts add up to %v", sum)
			}
			if h.width != test.width || h.bound != test.bound || h.beyond != test.beyond || len(h.parts) > timeLimit {
				t.Errorf("bars of %v up to %v with %d beyond, want %v, %v, %d", h.width, h.bound, h.beyond, test.width, test.bound, test.beyond)
			}
		})
	}
}

func TestShare(t *testing.T) {
	for want, parts := range map[string][2]uint64{
		"-": {0, 0}, "0 %": {0, 9}, "100 %": {9, 9}, "< 0.001 %": {1, 1e9}, "0.100 %": {1, 1000},
		"50.0 %": {1, 2}, "99.999 %": {1e9 - 1, 1e9},
	} {
		if got := share(parts[0], parts[1]); got != want {
			t.Errorf("%d of %d is %q, want %q", parts[0], parts[1], got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for ns, want := range map[float64]string{0: "0 ns", 999: "999 ns", 1500: "1.50 us", 123456: "123.5 us", 1234567: "1.235 ms", 2e9: "2.000 s"} {
		if got := span(ns); got != want {
			t.Errorf("%v is %q, want %q", ns, got, want)
		}
	}
}

// TestSeriesIsBounded: a long profile keeps points of all its time.
func TestSeriesIsBounded(t *testing.T) {
	var s series
	const all = 5 * seriesLimit
	for i := range all {
		s.add(Interval{at: time.Duration(i+1) * time.Second})
	}
	if len(s.points) >= seriesLimit || len(s.points) < seriesLimit/3 {
		t.Errorf("%d points", len(s.points))
	}
	for i, p := range s.points {
		if want := time.Duration((i+1)*s.stride) * time.Second; p.at != want {
			t.Fatalf("point %d is at %v, want %v", i, p.at, want)
		}
	}
}

// TestReport draws every part of a page, with names that could be markup.
func TestReport(t *testing.T) {
	times := [router.Stages]router.Distribution{
		observed(1000, 2000, 40_000_000), observed(500, 600, 700), observed(90, 80, 70), observed(1590, 2680, 40_000_770), observed(5000),
	}
	pairs := []router.Pair{
		{In: router.Interface{Index: 1, Name: "<in>"}, Out: router.Interface{Index: 2, Name: "out"}, Stages: times, Packets: 3, Bytes: 300, Merged: 1},
		{Stages: times, Packets: 3, Bytes: 100},
	}
	for i := range sections {
		pairs = append(pairs, router.Pair{In: router.Interface{Index: 3, Name: "x"}, Out: router.Interface{Index: 4 + i, Name: "y"}, Stages: times, Packets: 3})
	}
	sizes := make([]uint64, 1024)
	sizes[1], sizes[700] = 5, 5
	begin := time.Now()
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
	over.add(newInterval(begin, router.Snapshot{Time: begin}, now, time.Second))
	over.add(newInterval(begin, now, router.Snapshot{Time: begin.Add(3 * time.Second), Pairs: pairs}, 0))
	summary := newSummary(begin, 2*time.Second, time.Second, now)
	summary.Breaks.Longest = []router.Break{{Start: begin, LastNs: 300_000, Task: "<task>", TaskNs: 200_000, Cause: "scheduled"}}
	summary.Environment = Environment{Namespace: "<r>", Causes: true, Devices: []Device{{Name: "<in>", MTU: 1500, Up: true}}}
	path := filepath.Join(t.TempDir(), "r.html")
	p, err := createPage(t.Context(), outfile.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.write(newReport(summary, &over)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{
		"&lt;in&gt; &gt; out", "other pairs", "<h2>Other pairs</h2>", "NETFILTER_DROP nf_hook_slow", `class="bad"`, "not counted: filter",
		"Little's law", "Activity of the CPU", "process &lt;task&gt; 200.0\u00a0µs", "router_free", "0.5", "</html>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "<in>", "<r>", "<task>", "ZgotmplZ", "router_idle", "%!"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if said := summaryText(summary); !strings.Contains(said, "UNEXPLAINED -1") || !strings.Contains(said, "scheduled") && !strings.Contains(said, "irq 2") {
		t.Errorf("the text is %s", said)
	}
}
