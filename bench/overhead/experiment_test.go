package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/bench/estimate"
)

// fakeRunner replaces the testbed: every run takes a second, and costs depend on the arm.
type fakeRunner struct {
	now   time.Time
	order []string                 // arms in the order they were run
	cpuNs func(arm string) float64 // of a packet
	lose  func(arm string, run int) bool
	fail  error
}

func (f *fakeRunner) run(_ context.Context, a arm, c cell) (trial, error) {
	f.order = append(f.order, c.String()+" "+a.name)
	f.now = f.now.Add(time.Second)
	if f.lose != nil && f.lose(a.name, len(f.order)) {
		return trial{}, lossError{c.traffic, 100, 99}
	}
	r := trial{Arm: a.name, account: account{Marked: 1000}}
	if c.programs {
		r.Programs = []programCost{{"source_tc", 1000, f.cpuNs(a.name)}, {"destination_tc", 1000, f.cpuNs(a.name)}, {"source_renew", 1, 5000}}
		if a.name == armEmpty {
			r.Programs = []programCost{{emptyEgress, 1000, 50}, {emptyIngress, 1000, 55}}
		}
		return r, f.fail
	}
	r.UDP = &udpResult{Packets: 1000, Delivered: 1000, CPUNs: f.cpuNs(a.name), ClockNs: 2 * f.cpuNs(a.name)}
	return r, f.fail
}

// fakeExperiment measures the given cells and arms with costs that do not vary.
func fakeExperiment(f *fakeRunner, s settings, names ...string) *experiment {
	if f.cpuNs == nil {
		f.cpuNs = func(string) float64 { return 1000 }
	}
	var wanted []arm
	for _, a := range arms() {
		if slices.Contains(names, a.name) {
			wanted = append(wanted, a)
		}
	}
	x := &experiment{settings: s, runner: f, log: slog.New(slog.DiscardHandler), now: func() time.Time { return f.now }}
	x.design(s.cells(), wanted, wanted)
	return x
}

func TestBlocksAreCompleteAndInRandomOrder(t *testing.T) {
	names := []string{armNone, armNoneAgain, armEmpty, armAgents, armStampAll}
	order := func(seed uint64) []string {
		f := &fakeRunner{}
		x := fakeExperiment(f, settings{Blocks: 8, Seed: seed, Only: "udp6-56,udp4-56"}, names...)
		if err := x.measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		orders := map[string]bool{}
		for i := 0; i < len(f.order); i += len(names) {
			cell, _, _ := strings.Cut(f.order[i], " ")
			var seen []string
			for _, ran := range f.order[i : i+len(names)] {
				its, name, _ := strings.Cut(ran, " ")
				if its != cell {
					t.Errorf("block of %s has a run of %s", cell, its)
				}
				seen = append(seen, name)
			}
			orders[strings.Join(seen, " ")] = true
			if slices.Sort(seen); !slices.Equal(seen, slices.Sorted(slices.Values(names))) {
				t.Errorf("block has %v, want each of %v once", seen, names)
			}
		}
		if len(orders) < 8 { // of 16 blocks; 120 orders are possible
			t.Errorf("only %d orders in 16 blocks", len(orders))
		}
		for _, o := range x.outcomes {
			if len(o.blocks) != 8 {
				t.Errorf("%s has %d blocks, want 8", o.cell, len(o.blocks))
			}
		}
		return f.order
	}
	if first := order(1); !slices.Equal(first, order(1)) {
		t.Error("the same seed gives another order")
	} else if slices.Equal(first, order(2)) {
		t.Error("another seed gives the same order")
	}
}

func TestArmsApplyToTheirTraffic(t *testing.T) {
	f := &fakeRunner{}
	x := fakeExperiment(f, settings{Blocks: 1, Only: "udp6-56,udp4-56,programs6"}, armNone, armEmpty,
		"agents-native", "agents-udp", "agents-tcp-option", "tcpdump")
	if err := x.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(f.order)
	if want := []string{
		"programs6 agents-native", "programs6 empty",
		"udp4-56 agents-udp", "udp4-56 empty", "udp4-56 none", "udp4-56 tcpdump",
		"udp6-56 agents-native", "udp6-56 empty", "udp6-56 none", "udp6-56 tcpdump",
	}; !slices.Equal(f.order, want) {
		t.Errorf("ran %q, want %q", f.order, want)
	}
}

func TestBudgetEndsBetweenBlocks(t *testing.T) {
	for _, test := range []struct {
		name   string
		budget time.Duration
		blocks int
	}{
		{"none", 0, 9},
		{"enough", time.Minute, 9},
		{"three blocks and a half", 7 * time.Second, 3},
		{"exactly four", 8 * time.Second, 4},
		{"not one", time.Millisecond, 1}, // how long a block takes is not known before
	} {
		t.Run(test.name, func(t *testing.T) {
			x := fakeExperiment(&fakeRunner{}, settings{Blocks: 9, Budget: test.budget, Only: "udp6-56"}, armNone, armEmpty)
			if err := x.measure(t.Context()); err != nil || len(x.outcomes[0].blocks) != test.blocks {
				t.Errorf("%d blocks, %v, want %d", len(x.outcomes[0].blocks), err, test.blocks)
			}
		})
	}
}

func TestRunsThatLosePacketsAreRepeated(t *testing.T) {
	f := &fakeRunner{lose: func(arm string, run int) bool { return arm == armEmpty && run < 4 }}
	x := fakeExperiment(f, settings{Blocks: 1, Only: "udp6-56"}, armEmpty)
	if err := x.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := summarise(x.outcomes[0]).Arms[0]; r.Invalid != 3 || r.Rate.Values != 1 {
		t.Errorf("got %+v, want 3 invalid runs and one value", r)
	}

	f = &fakeRunner{lose: func(string, int) bool { return true }}
	err := fakeExperiment(f, settings{Blocks: 1, Only: "udp6-56"}, armEmpty).measure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "udp6-56, block 1: arm empty: 5 runs in a row lost packets") || len(f.order) != 5 {
		t.Errorf("error %v after %d runs", err, len(f.order))
	}

	f = &fakeRunner{fail: errors.New("no such device")}
	err = fakeExperiment(f, settings{Blocks: 3, Only: "udp6-56"}, armEmpty).measure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no such device") || len(f.order) != 1 {
		t.Errorf("error %v after %d runs, want the first to end it", err, len(f.order))
	}
}

// The machine becomes slower from block to block, which affects no ratio.
func TestRatiosAreTakenWithinBlocks(t *testing.T) {
	blocks := []block{}
	for i := range 6 {
		slow := float64(i + 1)
		made := func(arm string, cpuNs float64) trial {
			return trial{Arm: arm, sample: sample{UDP: &udpResult{Packets: 1000, Delivered: 1000, CPUNs: slow * cpuNs, ClockNs: slow * cpuNs * 2}},
				account: account{Marked: 1000}}
		}
		blocks = append(blocks, block{[]trial{
			made(armNone, 900), made(armNoneAgain, 1100), made(armEmpty, 1020), made(armAgents, 1050), made("tcpdump", 1300),
		}})
	}
	o := outcome{cell{traffic: traffic{v6: true, payload: 56}}, nil, blocks}
	for _, a := range arms() {
		if _, ok := blocks[0].of(a.name); ok {
			o.arms = append(o.arms, a)
		}
	}
	r := summarise(o)
	for _, want := range []struct {
		arm         string
		none, empty float64
	}{
		{armNoneAgain, 900. / 1100, 1020. / 1100}, // against one run, not against their mean
		{armEmpty, 1000. / 1020, 0},
		{armAgents, 1000. / 1050, 1020. / 1050},
		{"tcpdump", 1000. / 1300, 1020. / 1300},
	} {
		i := slices.IndexFunc(r.Arms, func(a armReport) bool { return a.Arm == want.arm })
		got := r.Arms[i]
		if math.Abs(got.RatioToNone.Median-want.none) > 1e-9 || math.Abs(got.RatioByClock.Median-want.none) > 1e-9 {
			t.Errorf("%s: ratio to none %v, by the clock %v, want %g", want.arm, got.RatioToNone, got.RatioByClock, want.none)
		}
		if want.empty != 0 && math.Abs(got.RatioToEmpty.Median-want.empty) > 1e-9 {
			t.Errorf("%s: ratio to empty %v, want %g", want.arm, got.RatioToEmpty, want.empty)
		}
	}
	var verdicts []string
	for _, b := range r.Bars {
		verdicts = append(verdicts, b.What+", "+b.Against+": "+string(b.Verdict))
	}
	if want := []string{numbered + ", none: met", numbered + ", empty: met", cheapest + ", tcpdump: met"}; !slices.Equal(verdicts, want) {
		t.Errorf("verdicts %q, want %q", verdicts, want)
	}
}

// An arm is cheap if it marks nothing.
func TestUnmarkedPacketsDoNotMeetATarget(t *testing.T) {
	f := &fakeRunner{}
	x := fakeExperiment(f, settings{Blocks: 6, Only: "udp6-56"}, armNone, armAgents)
	if err := x.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := x.outcomes[0]
	if r := summarise(o).Bars[0]; r.Verdict != estimate.Met || r.Doubt != "" {
		t.Errorf("all marked: %+v", r)
	}
	for i := range o.blocks[3].Trials {
		o.blocks[3].Trials[i].Marked = 500
	}
	if r := summarise(o).Bars[0]; r.Verdict != estimate.Undecided || r.Doubt != "only 0.5 of the packets due were marked" {
		t.Errorf("half marked in one block: %+v", r)
	}
}

func TestMarkdown(t *testing.T) {
	f := &fakeRunner{cpuNs: func(arm string) float64 {
		return map[string]float64{armNone: 1000, armNoneAgain: 1000, armEmpty: 1020, armAgents: 1050, "tcpdump": 1250}[arm]
	}}
	s := settings{Blocks: 6, Only: "udp6-56,programs6", Seed: 42}
	x := fakeExperiment(f, s, armNone, armNoneAgain, armEmpty, armAgents, "tcpdump")
	if err := x.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.outcomes[0].blocks[0].Trials[0].Invalid = 2
	for i, r := range x.outcomes[0].blocks[0].Trials {
		if r.Arm == "tcpdump" {
			x.outcomes[0].blocks[0].Trials[i].Missed = 17
		}
	}
	r := report{Settings: s, Missing: []string{"softflowd: it is not installed"},
		Maps: []mapMemory{{"flows", "LRUHash", 65536, 2048}, {"counters", "PerCPUArray", 16, 1024}}}
	for _, o := range x.outcomes {
		r.add(o)
	}
	text := r.markdown()
	for _, want := range []string{
		"seed 42.",
		"| tcpdump | tcpdump at both ends, 96 bytes of each packet to a file in memory | yes | yes |",
		"Left out: softflowd: it is not installed.",
		"| " + numbered + " | udp6-56 | agents | none | 0.952 [0.952..0.952] | 6 | ≥ 0.93 | met |",
		"| " + cheapest + " | udp6-56 | agents | tcpdump | 1.190 [1.190..1.190] | 6 | ≥ 1 | met |",
		"| program at the source above an empty one | programs6 | agents | empty program | 1000 [1000..1000] ns | 6 | ≤ 110 | **missed** |",
		"| udp6-56 | empty | 1020 ns | 0.980 [0.980..0.980] | – | 0.980 [0.980..0.980] | 0 % |",
		"did not capture 17 packets",
		"2 invalid runs",
		"| agents | programs6 | 1000 [1000..1000] ns | 995 [995..995] ns |",
		"| flows | LRUHash | 65536 | 2.0 |",
		"| all | | | 3.0 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	folder := t.TempDir()
	if err := r.write(folder); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(folder, "overhead-partial.json"))
	if err != nil || !strings.Contains(string(written), `"seed": 42`) {
		t.Errorf("no seed in the results: %v", err)
	}
}

func TestDroppedByKernel(t *testing.T) {
	text := "tcpdump: listening on a\n10 packets captured\n12 packets received by filter\n2 packets dropped by kernel\n1 packet dropped by interface\n"
	if got := droppedByKernel(text); got != 3 {
		t.Errorf("got %g, want 3", got)
	}
}
