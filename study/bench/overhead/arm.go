package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// arm is a treatment as the user names it.
type arm struct {
	name string
	// every, keyed and source are settings of agents: the sampling, whether marks carry
	// tags, and further arguments.
	every  int
	keyed  bool
	source []string
}

const (
	armNone   = "none"
	armEmpty  = "empty"
	armAgents = "agents"
)

// peers are other tools, by the command that each needs.
var peers = map[string]func(settings) treatment{
	"tcpdump":   func(settings) treatment { return tcpdump{} },
	"softflowd": func(settings) treatment { return softflowd{} },
	"epping":    func(s settings) treatment { return ePPing{s.epping} },
}

func armNames() []string {
	names := []string{armNone, armEmpty, armAgents}
	for name := range peers {
		names = append(names, name)
	}
	slices.Sort(names[3:])
	return names
}

// treatment returns what the arm stands for.
func (a arm) treatment(s settings) treatment {
	switch a.name {
	case armNone:
		return native{}
	case armEmpty:
		return empty{}
	case armAgents:
		return agents{binary: s.agent, every: a.every, source: a.source, keyed: a.keyed}
	}
	return peers[a.name](s)
}

// check says what the arm lacks.
func (a arm) check(s settings) error {
	needs, hint := a.name, "'make install-bench' installs it"
	switch a.name {
	case armNone, armEmpty:
		return nil
	case armAgents:
		needs, hint = s.agent, "run 'make build'"
	case "epping":
		needs, hint = s.epping, "use --epping PATH"
	}
	if _, err := exec.LookPath(needs); err != nil {
		return usageError(fmt.Sprintf("run arm %s: find %s: %v; %s", a.name, needs, err, hint))
	}
	return nil
}

func (a arm) String() string {
	words := append([]string{a.name}, a.source...)
	if a.keyed {
		words = append(words, "authenticated")
	}
	return strings.Join(words, " ")
}
