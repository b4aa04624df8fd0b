package main

import (
	"flag"
	"fmt"
	"io"
	"testing"

	"pillion.dev/study/bench/result/calls"
)

func TestExperimentCallsWithKnownArguments(t *testing.T) {
	calls.Parse(t, "bin/bench/crowd", func(words []string) error {
		var s settings
		f := flag.NewFlagSet("crowd", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		s.flags(f)
		if err := f.Parse(words); err != nil {
			return err
		}
		if f.NArg() > 0 {
			return fmt.Errorf("unexpected arguments %q", f.Args())
		}
		return s.complete()
	}, "../fleet.yaml")
}

func TestInvalidSettings(t *testing.T) {
	for name, change := range map[string]func(*settings){
		"steps that do not ascend": func(s *settings) { s.steps.text = "100,100" },
		"a step of one agent":      func(s *settings) { s.steps.text = "1" },
		"a process without an id":  func(s *settings) { s.steps.processes = "server" },
		"a fleet without steps":    func(s *settings) { s.fleet = 3 },
		"a fleet and a server":     func(s *settings) { s.fleet, s.steps.text, s.server, s.tokenFile = 3, "10", "localhost:1", "t" },
		"a server without a token": func(s *settings) { s.server = "localhost:1" },
		"no sources":               func(s *settings) { s.pairs = "0" },
	} {
		s := settings{agents: 10, routers: 10, pairs: "10"}
		if err := s.complete(); err != nil {
			t.Fatal(err)
		}
		s = settings{agents: 10, routers: 10, pairs: "10"}
		if change(&s); s.complete() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestSpent: roles are the sums of their processes.
func TestSpent(t *testing.T) {
	before := map[string]processUsed{"server1": {CPU: 1}, "server2": {CPU: 2}, "crowd": {CPU: 3}}
	after := map[string]processUsed{"server1": {CPU: 2, Memory: 10}, "server2": {CPU: 5, Memory: 20}, "crowd": {CPU: 3, Memory: 5}}
	all := spent(before, after, 2, 1000)
	for name, want := range map[string]processUsed{
		"server1": {CPU: 1000, Share: 0.5, Memory: 10}, "server2": {CPU: 3000, Share: 1.5, Memory: 20},
		"server": {CPU: 4000, Share: 2, Memory: 30}, "crowd": {Memory: 5},
	} {
		if all[name] != want {
			t.Errorf("%s used %+v, want %+v", name, all[name], want)
		}
	}
	if len(all) != 4 {
		t.Errorf("processes %v", all)
	}
}
