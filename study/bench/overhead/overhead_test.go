package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	for _, test := range []struct{ name, arguments, wrong string }{
		{"none", "", ""},
		{"rate", "--measure rate --rate 100", ""},
		{"unknown flag", "--fast", "-fast"},
		{"argument", "now", `unexpected "now"`},
		{"unknown measure", "--measure luck", `"luck" is unknown`},
		{"unknown arm", "--arm magic", `"magic" is unknown`},
		{"sampling without agents", "--arm empty --every 10", "--arm agents"},
		{"sampling of nothing", "--arm agents --every 0", "below 1"},
		{"tags above open marks without tags", "--arm agents --above-open", "needs --authenticated"},
		{"no time", "--length 0s", "not more than 0"},
		{"negative rate", "--rate -1", "-1 Mbit/s is negative"},
		{"rate without a rate", "--measure rate", "needs --rate"},
		{"rate of TCP", "--rate 5 --traffic tcp6", "needs UDP"},
		{"programs with TCP", "--measure programs --traffic tcp4", "needs UDP"},
		{"functions over IPv4", "--measure functions --arm agents --traffic udp4-56", "IPv6"},
		{"unknown method", "--measure bytes --method magic", `"magic" is unknown`},
		{"no traffic", "--traffic sctp", "udp6-56"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := parseFlags(strings.Fields(test.arguments))
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("error %v, want one with %q", err, test.wrong)
			}
		})
	}
	s, _, err := parseFlags([]string{"--arm", "agents", "--authenticated", "--above-open", "--source", "--encoding native"})
	if err != nil || !s.arm.keyed || s.above.keyed || !slices.Equal(s.above.source, []string{"--encoding", "native"}) {
		t.Errorf("got %+v, %v, want the same marks without tags to compare with", s, err)
	}
}

func TestParseTraffic(t *testing.T) {
	for _, test := range []struct {
		name string
		want traffic
	}{
		{"udp6-56", traffic{true, 56, datagrams}},
		{"udp4-1400", traffic{false, 1400, datagrams}},
		{"tcp6", traffic{true, 0, bulk}},
		{"tcp4-segmented", traffic{false, 0, segmented}},
		{"tcp4-requests-512", traffic{false, 512, requests}},
	} {
		if got, err := parseTraffic(test.name); err != nil || got != test.want || got.String() != test.name {
			t.Errorf("%s: got %+v, %v", test.name, got, err)
		}
	}
	for _, name := range []string{"", "udp", "udp6", "udp5-56", "udp6-0", "udp6-x", "udp6-1-2", "udp6--1", "tcp6-fast", "tcp6-requests-", "tcp6-requests-1-2", "sctp6", "udp6-99999", "4-56"} {
		k, err := parseTraffic(name)
		if name == "tcp6-requests-" && err == nil { // the default size
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "examples are") {
			t.Errorf("%q: got %+v, %v", name, k, err)
		}
	}
}

func TestCheckArm(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "tcpdump"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	for _, test := range []struct{ name, arm, wrong string }{
		{"nothing", armNone, ""},
		{"installed", "tcpdump", ""},
		{"not installed", "softflowd", "make install-bench"},
		{"not built", armAgents, "make build"},
		{"nowhere", "epping", "--epping PATH"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := arm{name: test.arm}.check(settings{agent: "/nowhere/agent", epping: "/nowhere/epping"})
			if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("error %v, want one with %q", err, test.wrong)
			}
		})
	}
}

const profileText = `swapper ffffffff81a2b3c4 pv_native_safe_halt
overhead ffffffff81a2b3c4 ip6_finish_output2
   my prog ffffffffc0a2b3c4 bpf_prog_0123_source_tc
overhead  7f00deadbeef [unknown]
overhead  ffffffff81a2b3c5 ip6_finish_output2
`

func TestProfile(t *testing.T) {
	p := profile{}
	if err := p.add(profileText); err != nil {
		t.Fatal(err)
	}
	want := profile{"ip6_finish_output2": 2, "bpf_prog_0123_source_tc": 1, "unknown of overhead": 1}
	for name, n := range want {
		if p[name] != n {
			t.Errorf("%s: %d samples, want %d of %v", name, p[name], n, p)
		}
	}
	if p.samples() != 4 {
		t.Errorf("%d samples, want 4 without those of an idle core", p.samples())
	}
	for _, text := range []string{"", "\n\n", "no address here"} {
		if err := (profile{}).add(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestDiffer(t *testing.T) {
	r := differ(profile{"a": 50, "b": 50}, profile{"a": 25, "b": 50, "c": 25})
	if r.Functions != 3 || r.Samples != 200 || r.LargestName != "c" || r.Largest != 0.25 || math.Abs(r.Mean) > 1e-12 {
		t.Errorf("got %+v", r)
	}
	// of -0.25, 0, 0.25, by linear interpolation
	if math.Abs(r.Low+0.2375) > 1e-12 || math.Abs(r.High-0.2375) > 1e-12 || math.Abs(r.Width-0.475) > 1e-12 {
		t.Errorf("quantiles %g and %g", r.Low, r.High)
	}
}

func FuzzProfile(f *testing.F) {
	f.Add(profileText)
	f.Fuzz(func(t *testing.T, text string) {
		p := profile{}
		if err := p.add(text); err != nil {
			return
		}
		if r := differ(p, p); r.Mean != 0 || r.Width != 0 {
			t.Errorf("a profile differs from itself: %+v", r)
		}
	})
}
