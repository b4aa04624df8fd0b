package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pillion.dev/study/bench/result/calls"
)

// measured runs a subcommand and returns what it prints.
func measured(t *testing.T, name string, arguments ...string) map[string]any {
	t.Helper()
	f := flag.NewFlagSet(name, flag.PanicOnError)
	measure := commands[name](f)
	if err := f.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	r, err := measure(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// Each packet that was sent has all its times or a reason why not, and each histogram of
// a delay holds each packet whose delay was measured.
func TestEveryPacketIsAccountedFor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root: network namespaces")
	}
	for name, arguments := range map[string]string{
		"datagrams":                 "-family 4 -packets 2000 -rate 20000",
		"a rival, IPv6":             "-family 6 -packets 2000 -rate 20000 -competing 20 -payload gaussian:600:200",
		"a stream over a slow line": "-protocol tcp -packets 500 -rate 5000 -line 20",
		"too much for the line":     "-packets 4000 -rate 20000 -line 10 -payload 1400",
	} {
		t.Run(name, func(t *testing.T) {
			r := measured(t, "delays", strings.Fields(arguments)...)
			number := func(name string) float64 {
				v, ok := r[name].(float64)
				if !ok {
					t.Errorf("%s is %v", name, r[name])
				}
				return v
			}
			counts := map[string]float64{}
			for _, row := range r["intervals"].([]any) {
				row := row.(map[string]any)
				counts[fmt.Sprint(row["histogram"])] += row["packets"].(float64)
			}
			if number("unnamed") != 0 || number("sent") != number("measured")+counts["fate"] {
				t.Errorf("%v sent, %v measured, %v with a reason, %v unnamed", r["sent"], r["measured"], counts["fate"], r["unnamed"])
			}
			if counts["input_size"] != number("measured") || counts["output_size"] != number("measured") {
				t.Errorf("%v measured, of which %v are in the input queue's sizes, %v in the output's", r["measured"], counts["input_size"], counts["output_size"])
			}
			if counts["processing"] == 0 || counts["processing"] != counts["processing_fine"] || counts["processing"] != counts["transit"] || counts["input"] != counts["output"] {
				t.Errorf("histograms differ: %v", counts)
			}
			if strings.Contains(name, "too much") && number("lost") == 0 {
				t.Error("no packet lost")
			}
		})
	}
}

func TestCounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root: network namespaces")
	}
	for _, profile := range []string{"none", "empty", "profile"} {
		if r := measured(t, "rate", "-packets", "2000", "-profile", profile); !(r["packets_per_s"].(float64) > 1000) {
			t.Errorf("rate with %s: %v", profile, r)
		}
	}
	if r := measured(t, "hooks", "-packets", "2000"); !(r["worst_ns"].(float64) > 0) || !(r["pre_routing_ns"].(float64) > 0) {
		t.Errorf("hooks: %v", r)
	}
	for traffic := range kinds {
		r := measured(t, "account", "-packets", "5000", "-traffic", traffic)
		forwarded := r["forwarded"].(float64)
		if r["unnamed"].(float64) != 0 || forwarded == 0 || forwarded > 2000 && r["dropped"].(float64) == 0 { // one in a hundred, at random
			t.Errorf("account of %s: %v", traffic, r)
		}
	}
}

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/router", commands, "../*.yaml", "../paper/*/*.yaml")
}
