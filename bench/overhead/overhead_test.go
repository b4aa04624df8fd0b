package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pillion.dev/wire"
)

func TestCells(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings settings
		cells    int
	}{
		{"full", settings{}, 2*3 + 2*3 + 2},
		{"quick", settings{Quick: true}, 3 + 2},
		{"one", settings{Only: "udp6-56"}, 1},
		{"a kind", settings{Only: "udp"}, 6},
		{"two kinds", settings{Only: "udp4,tcp6"}, 3 + 3},
		{"programs", settings{Only: "programs"}, 2},
		{"none", settings{Only: "sctp"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen := map[string]bool{}
			for _, c := range test.settings.cells() {
				seen[c.String()] = true
			}
			if plan := test.settings.cells(); len(plan) != test.cells || len(seen) != test.cells {
				t.Errorf("%d cells, %d of them different, want %d: %v", len(plan), len(seen), test.cells, plan)
			}
		})
	}
}

func TestSelectArms(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"tcpdump", "epping"} {
		if err := os.WriteFile(filepath.Join(path, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", path)
	var encodings string
	for _, e := range wire.Encodings() {
		encodings += " agents-" + e.String()
	}
	for _, test := range []struct{ name, arms, epping, blocks, costs, missing, wrong string }{
		{"default", "", "", "none none-again empty agents agents-stamp-all agents-authenticated agents-stamp-all-authenticated agents-sparse tcpdump",
			"empty agents agents-stamp-all agents-authenticated agents-stamp-all-authenticated agents-sparse" + encodings, "softflowd epping", ""},
		{"with ePPing", "", "epping", "none none-again empty agents agents-stamp-all agents-authenticated agents-stamp-all-authenticated agents-sparse tcpdump epping",
			"empty agents agents-stamp-all agents-authenticated agents-stamp-all-authenticated agents-sparse" + encodings, "softflowd", ""},
		{"named", "agents,tcpdump", "", "none agents tcpdump", "agents tcpdump", "", ""},
		{"unknown", "agents,magic", "", "", "", "", `unknown arm "magic"`},
		{"named but not installed", "softflowd", "", "", "", "", "make install-bench"},
		{"named without its program", "epping", "", "", "", "", "--peer-epping PATH"},
		{"program does not exist", "epping", "/nowhere/epping", "", "", "", "/nowhere/epping"},
	} {
		t.Run(test.name, func(t *testing.T) {
			blocks, costs, missing, err := selectArms(settings{Arms: test.arms, EPPing: test.epping})
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("error %v, want one with %q", err, test.wrong)
				}
				return
			}
			for i := range missing {
				missing[i], _, _ = strings.Cut(missing[i], ":")
			}
			got := []string{strings.ReplaceAll(armNames(blocks), ",", ""), strings.ReplaceAll(armNames(costs), ",", ""), strings.Join(missing, " ")}
			if want := []string{test.blocks, test.costs, test.missing}; err != nil || !slices.Equal(got, want) {
				t.Errorf("got %q, %v, want %q", got, err, want)
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

func TestWriteKeepsPartialResultsApart(t *testing.T) {
	for _, test := range []struct {
		name     string
		settings settings
		want     string
	}{
		{"full", settings{}, "overhead"},
		{"quick", settings{Quick: true}, "overhead-partial"},
		{"some cells", settings{Only: "tcp"}, "overhead-partial"},
		{"some arms", settings{Arms: "empty"}, "overhead-partial"},
		{"arguments of the source", settings{Source: "--encoding native"}, "overhead-partial"},
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
		{"no blocks", "--blocks 0", "at least 1"},
		{"no such cell", "--only sctp", "no cell"},
		{"negative budget", "--budget -5m", "negative"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := parseFlags(strings.Fields(test.arguments))
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("error %v, want one with %q", err, test.wrong)
			}
		})
	}
	s, _, err := parseFlags(strings.Fields("--quick --blocks 7"))
	if err != nil || s.Blocks != 7 || s.UDPSeconds != 0.2 || s.Seed == 0 {
		t.Errorf("quick with --blocks 7 gives %+v, %v", s, err)
	}
}
