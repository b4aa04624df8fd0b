package main

import (
	"testing"

	"pillion.dev/study/bench/result/calls"
)

func TestExperimentsCallWithKnownArguments(t *testing.T) {
	calls.Check(t, "bin/bench/fill", commands, "../fill.yaml")
}

func TestRateIn(t *testing.T) {
	const printed = "goos: linux\ncpu: some\nBenchmarkFill/columns-2         \t       3\t 557236513 ns/op\t     89729 rows/s\nPASS\n"
	if rate, err := rateIn([]byte(printed)); err != nil || rate != 89729 {
		t.Errorf("rate is %g, %v", rate, err)
	}
	for _, text := range []string{"", "PASS\n", "BenchmarkFill/columns-2 3 557236513 ns/op\n"} {
		if rate, err := rateIn([]byte(text)); err == nil {
			t.Errorf("%q gives %g", text, rate)
		}
	}
}
