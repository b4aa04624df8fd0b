package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"pillion.dev/wire"
)

// arm is one treatment of a block.
type arm struct {
	name string
	what string // for people
	// inBlocks: part of each block of traffic unless --arms selects others; inCosts: the same
	// for the blocks that measure the programs.
	inBlocks, inCosts bool
	// agents are arms of Pillion; every is the sampling of the source.
	agents bool
	every  int
	// needs is the command of a peer.
	needs string
	// delay is one-way, as loss is.
	delay, loss bool
	// encodings of marks; empty means the default list, which applies to all traffic.
	encodings wire.EncodingList
	start     func(s settings) treatment
}

const (
	armNone      = "none"
	armNoneAgain = "none-again"
	armEmpty     = "empty"
	armAgents    = "agents"
	armStampAll  = "agents-stamp-all"
	armSparse    = "agents-sparse"
	armKeyed     = "agents-authenticated"
	armKeyedAll  = "agents-stamp-all-authenticated"
)

// pillion is an arm of the agents.
func pillion(name, what, modules string, every int, arguments ...string) arm {
	return arm{
		name: name, what: what, agents: true, every: every,
		delay: strings.Contains(modules, "delay"), loss: strings.Contains(modules, "loss"),
		start: func(s settings) treatment {
			return agents{s.Agent, modules, every, slices.Concat(arguments, strings.Fields(s.Source)), false}
		},
	}
}

// authenticated is the same arm with marks that carry tags.
func (a arm) authenticated(name string) arm {
	open := a.start
	a.name, a.what = name, a.what+", authenticated"
	a.start = func(s settings) treatment {
		t := open(s).(agents)
		t.keyed = true
		return t
	}
	return a
}

// arms returns all arms that can be selected.
func arms() []arm {
	standard := pillion(armAgents, "Pillion with its defaults: every packet numbered, 1 in 16 stamped", "delay,loss", 1)
	stampAll := pillion(armStampAll, "Pillion, every packet stamped", "delay,loss", 1, "--stamp-every", "1")
	all := []arm{
		{name: armNone, what: "no program", start: func(settings) treatment { return native{} }},
		{name: armNoneAgain, what: "no program, a second run: shows the noise", start: func(settings) treatment { return native{} }},
		{name: armEmpty, what: "two programs that do nothing", start: func(settings) treatment { return empty{} }},
		standard,
		stampAll,
		standard.authenticated(armKeyed),
		stampAll.authenticated(armKeyedAll),
		pillion(armSparse, "Pillion with sparse marks: 1 packet in 16 marked, all counted", "delay,loss", 1, "--sparse-marks"),
		{name: "tcpdump", what: "tcpdump at both ends, 96 bytes of each packet to a file in memory", needs: "tcpdump",
			delay: true, loss: true, start: func(settings) treatment { return tcpdump{} }},
		{name: "softflowd", what: "softflowd at both ends", needs: "softflowd",
			loss: true, start: func(settings) treatment { return softflowd{} }},
		{name: "epping", what: "ePPing at the source", start: func(s settings) treatment { return ePPing{s.EPPing} }},
	}
	for i := range all {
		all[i].inBlocks = true
		all[i].inCosts = all[i].agents || all[i].name == armEmpty
	}
	for _, e := range wire.Encodings() {
		a := pillion("agents-"+e.String(), "Pillion with the encoding "+e.String(), "delay,loss", 1, "--encoding", e.String())
		a.inCosts, a.encodings = true, wire.EncodingList{e}
		all = append(all, a)
	}
	for _, every := range []int{1, 10} {
		for _, modules := range []string{"delay", "loss", "delay,loss"} {
			name, what := "agents-"+strings.ReplaceAll(modules, ",", "-"), "Pillion, "+modules
			if every > 1 {
				name += fmt.Sprintf("-1-in-%d", every)
				what += fmt.Sprintf(", 1 packet in %d marked", every)
			} else if modules == "delay,loss" {
				continue // armAgents
			}
			all = append(all, pillion(name, what, modules, every))
		}
	}
	return all
}

func (a arm) appliesTo(c cell) bool {
	if c.programs && !a.agents && a.name != armEmpty {
		return false
	}
	_, ok := a.encodings.Choose(c.traffic.class())
	return ok || len(a.encodings) == 0
}

// selectArms returns the arms of blocks of traffic and of blocks that measure programs, and
// the reason for each arm that is left out. If the user named that arm it returns an error.
func selectArms(s settings) (blocks, costs []arm, missing []string, err error) {
	wanted := strings.FieldsFunc(s.Arms, func(r rune) bool { return r == ',' })
	all := arms()
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(a arm) bool { return a.name == name }) && name != "all" {
			return nil, nil, nil, usageError(fmt.Sprintf("read arguments: unknown arm %q; known arms: %s", name, armNames(all)))
		}
	}
	for _, a := range all {
		isNamed := slices.Contains(wanted, a.name)
		isWanted := isNamed || slices.Contains(wanted, "all")
		if why := a.isMissing(s); why != "" {
			if isNamed {
				return nil, nil, nil, usageError(fmt.Sprintf("run arm %s: %s", a.name, why))
			}
			if isWanted || len(wanted) == 0 && a.inBlocks {
				missing = append(missing, a.name+": "+why)
			}
			continue
		}
		if isWanted || len(wanted) == 0 && a.inBlocks || a.name == armNone {
			blocks = append(blocks, a)
		}
		if isWanted || len(wanted) == 0 && a.inCosts {
			costs = append(costs, a)
		}
	}
	return blocks, costs, missing, nil
}

// isMissing returns what an arm lacks, "" if nothing.
func (a arm) isMissing(s settings) string {
	switch {
	case a.name == "epping" && s.EPPing == "":
		return "no program given; use --peer-epping PATH"
	case a.name == "epping":
		if _, err := exec.LookPath(s.EPPing); err != nil {
			return fmt.Sprintf("find %s: %v", s.EPPing, err)
		}
	case a.needs != "":
		if _, err := exec.LookPath(a.needs); err != nil {
			return a.needs + " is not installed; 'make install-bench' installs it"
		}
	}
	return ""
}

func armNames(all []arm) string {
	var names []string
	for _, a := range all {
		names = append(names, a.name)
	}
	return strings.Join(names, ", ")
}
