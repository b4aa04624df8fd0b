package main

import (
	"context"
	"flag"
	"os"
	"strings"
	"testing"

	"pillion.dev/send/dispatch"
	"pillion.dev/study/bench/result"
	"pillion.dev/study/bench/result/calls"
)

// Oracle: two trains of three packets, computed by hand.
func TestCompare(t *testing.T) {
	var records []dispatch.Record
	seen := map[[2]int]int64{}
	for train := range 2 {
		for number, late := range []int64{1_000, 3_000, 150_000} {
			due := int64(train*1_000_000 + number*10_000)
			records = append(records, dispatch.Record{Train: uint32(train), Number: uint32(number), Intended: due, Handed: due + late - 500})
			seen[[2]int{train, number}] = due + late
		}
	}
	delete(seen, [2]int{1, 1}) // the observer missed it: neither it nor the next one has a gap
	s := shape{kind: train, trains: 2, packets: 3}
	r := s.compare(records, func(train, number int) (int64, uint64) {
		at, ok := seen[[2]int{train, number}]
		if !ok {
			return 0, 0
		}
		return at, 1
	})
	for name, want := range map[string]any{
		"packets": 6, "unseen": 1, "copies": uint64(5), "error_min_us": 1.0, "error_p50_us": 3.0, "error_max_us": 150.0,
		"within_10us": 0.6, "within_100us": 0.6, "gap_min_us": 12.0, "gap_max_us": 157.0, "returned_p50_us": 0.5, "returned_max_us": 0.5,
	} {
		if r[name] != want {
			t.Errorf("%s is %v, want %v", name, r[name], want)
		}
	}
}

// measured returns what a subcommand measures.
func measured(t *testing.T, arguments string) result.Result {
	t.Helper()
	words := strings.Fields(arguments)
	f := flag.NewFlagSet(words[0], flag.PanicOnError)
	measure := commands[words[0]](f)
	if err := f.Parse(words[1:]); err != nil {
		t.Fatal(err)
	}
	r, err := measure(context.Background())
	if err != nil {
		t.Fatalf("%s: %v", arguments, err)
	}
	return r
}

func TestWorkloads(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root: network namespaces")
	}
	for arguments, want := range map[string]string{
		"train -trains 2 -arm on-the-fly": "error_p99_us", "pair -pairs 5 -arm socket": "gap_p50_us", "flush -packets 200 -arm initial": "gap_mean_us",
		"rate -packets 100 -mbit 100": "rate_over_asked", "clock -readings 100 -sleeps 5": "oversleep_p50_us",
		"model -packets 50 -law file": "gap_error_p95_us", "model -packets 50 -law onoff -arm socket": "gap_error_p95_us",
	} {
		r := measured(t, arguments)
		if v, ok := r[want].(float64); !ok || v <= 0 {
			t.Errorf("%s: %v", arguments, r)
		}
	}
}

func TestInvalidArguments(t *testing.T) {
	for arguments, want := range map[string]string{
		"train -arm fast": "want initial, on-the-fly, socket", "train -load heavy": "want idle", "model -law zipf": "want cauchy", "peer -tool ping": "want pillion",
	} {
		if os.Geteuid() != 0 && strings.Contains(arguments, "-arm") {
			continue // it is found with the sender
		}
		words := strings.Fields(arguments)
		f := flag.NewFlagSet(words[0], flag.PanicOnError)
		measure := commands[words[0]](f)
		if err := f.Parse(words[1:]); err != nil {
			t.Fatal(err)
		}
		if _, err := measure(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/send", commands, "../*.yaml", "../paper/*/*.yaml")
}
