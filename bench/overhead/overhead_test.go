package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"none", nil, 0},
		{"one", []float64{3}, 3},
		{"odd", []float64{9, 1, 5}, 5},
		{"even", []float64{4, 1, 3, 2}, 2.5},
		{"an outlier does not move it", []float64{1, 1, 1, 1e9}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.values)
			if got := median(test.values); got != test.want {
				t.Errorf("median(%v) = %g, want %g", test.values, got, test.want)
			}
			if !slices.Equal(before, test.values) {
				t.Errorf("median changed its argument to %v", test.values)
			}
		})
	}
}

func TestCells(t *testing.T) {
	const promised = 3*2*3 + 2*3*2 // three kinds of TCP at 1-in-1; 56 bytes at 1-in-1 and 1-in-10
	for _, test := range []struct {
		name     string
		settings settings
		cells    int
		targets  int
	}{
		{"full", settings{}, 2*3*12 + 2, promised},
		{"quick", settings{Quick: true}, 3 + 2, 3},
		{"one kind", settings{Only: "udp6-1400"}, 6, 0},
		{"one cell", settings{Only: "delay,loss 1-in-10 tcp4-requests"}, 1, 0},
		{"none", settings{Only: "sctp"}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := test.settings.cells()
			seen, targets := map[string]bool{}, 0
			for _, c := range plan {
				seen[c.String()] = true
				if c.target() != 0 {
					targets++
				}
			}
			if len(plan) != test.cells || len(seen) != test.cells || targets != test.targets {
				t.Errorf("%d cells (%d different) with %d targets, want %d with %d: %v",
					len(plan), len(seen), targets, test.cells, test.targets, plan)
			}
		})
	}
}

const iperfReport = `{"start":{},"intervals":[],"end":{
	"sum_sent":{"seconds":2,"bytes":3e9,"retransmits":7},
	"sum_received":{"seconds":2,"bytes":2.5e9,"bits_per_second":1e10},
	"cpu_utilization_percent":{"host_total":50,"host_user":1,"remote_total":30}}}`

func TestParseIperf(t *testing.T) {
	got, err := parseIperf([]byte(iperfReport))
	if want := (tcpResult{2.5e9, 7, 1e10, 1.25e10}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, test := range []struct{ name, report, want string }{
		{"refused", `{"error":"unable to connect to server: Connection refused"}`, "Connection refused"},
		{"cut off", `{"start":{`, "parse report"},
		{"empty", ``, "parse report"},
		{"stalled", `{"end":{"sum_received":{"bytes":0,"seconds":1}}}`, "nothing was received"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parseIperf([]byte(test.report)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func FuzzParseIperf(f *testing.F) {
	f.Add([]byte(iperfReport))
	f.Fuzz(func(t *testing.T, report []byte) {
		if r, err := parseIperf(report); err == nil && !(r.BitsPerCPUSecond > 0) {
			t.Errorf("accepted a rate of %g", r.BitsPerCPUSecond)
		}
	})
}

func TestJSONKey(t *testing.T) {
	for _, test := range []struct{ name, line, want string }{
		{"ready", `{"ready":{"hook":"tcx"}}` + "\n", `{"hook":"tcx"}`},
		{"empty object", `{"ready":{}}`, `{}`},
		{"another line", `{"time":"x","packets":3}`, ``},
		{"deeper down", `{"flow":{"ready":1}}`, ``},
		{"not JSON", `it is "ready"`, ``},
		{"no line", ``, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := jsonKey(test.line, "ready"); string(got) != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzJSONKey(f *testing.F) {
	f.Add(`{"summary":{"marked":1}}`)
	f.Fuzz(func(t *testing.T, line string) {
		if got := jsonKey(line, "summary"); got != nil && !json.Valid(got) {
			t.Errorf("got %q, which is not JSON", got)
		}
	})
}

func TestSummariseTakesRatiosPairByPair(t *testing.T) {
	udp := func(cpuNs, clockNs float64) sample {
		return sample{UDP: &udpResult{Packets: 1000, Delivered: 1000, CPUNs: cpuNs, ClockNs: clockNs}}
	}
	c := cell{"delay", 10, traffic{v6: true, payload: 56}}
	o := outcome{cell: c}
	// The machine is half as fast in the second pair, which affects no ratio.
	for _, p := range []pair{
		{Native: udp(1000, 1000), Treated: udp(1250, 2000)},
		{Native: udp(2000, 2000), Treated: udp(2500, 4000)},
		{Native: udp(1000, 1000), Treated: udp(1000, 1000)},
	} {
		p.Account.Source = json.RawMessage(`{"marked":100}`)
		p.conclude(c)
		if p.MarkedShare != 1 {
			t.Errorf("marked share %g, want 1: 100 of 1000 packets at 1 in 10", p.MarkedShare)
		}
		o.pairs = append(o.pairs, p)
	}
	r := summarise(o)
	if want := (spread{0.8, 0.8, 1}); r.RatioCPU != want {
		t.Errorf("ratio by CPU %v, want %v", r.RatioCPU, want)
	}
	if want := (spread{0.5, 0.5, 1}); r.RatioClock != want {
		t.Errorf("ratio by the clock %v, want %v", r.RatioClock, want)
	}
	table := report{Cells: []cellReport{r}}.markdown()
	want := "| delay | 1 in 10 | udp6-56 | 1000 ns | 1250 ns | 0.800 [0.800..1.000] | 0.500 [0.500..1.000] | ≥ 0.98 **missed** |"
	if !strings.Contains(table, want) {
		t.Errorf("no line %q in\n%s", want, table)
	}
	r.MarkedShare = 0.5
	if table := (report{Cells: []cellReport{r}}).markdown(); !strings.Contains(table, "only 0.5 of the packets due were marked") {
		t.Errorf("no doubt about too few marks in\n%s", table)
	}
}

func TestMarkdownShowsCosts(t *testing.T) {
	r := report{Costs: costs{
		Programs: []programCost{
			{"IPv6", "source_tcx", 1000, 240.4}, {"IPv4", "destination_tcx", 1000, 151}, {"IPv6", emptyEgress, 9, 50},
		},
		Maps: []mapMemory{{"flows", "LRUHash", 65536, 2048}, {"counters", "PerCPUArray", 16, 1024}},
	}}
	for _, want := range []string{
		"| source_tcx | IPv6 | 1000 | 240 | ≤ 250 met |",
		"| destination_tcx | IPv4 | 1000 | 151 | ≤ 150 **missed** |",
		"| empty_egress | IPv6 | 9 | 50 | – |",
		"| flows | LRUHash | 65536 | 2.0 |",
		"| all | | | 3.0 |",
	} {
		if !strings.Contains(r.markdown(), want) {
			t.Errorf("no line %q in\n%s", want, r.markdown())
		}
	}
}

func TestWriteKeepsPartialResultsApart(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings settings
		want     string
	}{
		{"full", settings{Treatment: "agents"}, "overhead"},
		{"quick", settings{Treatment: "agents", Quick: true}, "overhead-partial"},
		{"some cells", settings{Treatment: "agents", Only: "tcp"}, "overhead-partial"},
		{"no agents", settings{Treatment: "none"}, "overhead-partial"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "results")
			if err := (report{Settings: test.settings}).write(folder); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if want := []string{test.want + ".json", test.want + ".md"}; !slices.Equal(names, want) {
				t.Errorf("wrote %v, want %v", names, want)
			}
		})
	}
}

func TestParseFlags(t *testing.T) {
	for _, test := range []struct{ name, arguments, wrong string }{
		{"none", "", ""},
		{"quick", "--quick", ""},
		{"unknown flag", "--fast", "-fast"},
		{"argument", "now", `unexpected "now"`},
		{"no pairs", "--pairs 0", "at least 1"},
		{"no such cell", "--only sctp", "no cell"},
		{"unknown treatment", "--treatment magic", `unknown treatment "magic"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := parseFlags(strings.Fields(test.arguments))
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("error %v, want one with %q", err, test.wrong)
			}
		})
	}
	s, _, err := parseFlags(strings.Fields("--quick --pairs 7"))
	if err != nil || s.Pairs != 7 || s.UDPSeconds != 0.5 {
		t.Errorf("quick with --pairs 7 gives %+v, %v", s, err)
	}
}
