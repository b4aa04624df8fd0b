package main

import (
	"testing"

	"pillion.dev/study/bench/result/calls"
)

// Every cell of the experiments that call this program is a call that it accepts.
func TestExperimentsCallWithKnownArguments(t *testing.T) {
	read := func(words []string) error {
		_, _, err := parseFlags(words)
		return err
	}
	if n := calls.Parse(t, "bin/overhead", read, "../*.yaml", "../paper/s[12]/*.yaml"); n < 400 {
		t.Errorf("only %d calls in the experiments", n)
	}
}
