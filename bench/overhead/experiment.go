package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// settings are the user's options; they are part of the results.
type settings struct {
	Agent      string        `json:"agent"`
	Source     string        `json:"source,omitempty"` // further arguments of pillion-agent source
	EPPing     string        `json:"epping,omitempty"` // program of ePPing
	Quick      bool          `json:"quick"`
	Only       string        `json:"only,omitempty"`
	Arms       string        `json:"arms,omitempty"` // those the user named
	Blocks     int           `json:"blocks"`
	Budget     time.Duration `json:"budget_ns"` // 0 means no limit
	Seed       uint64        `json:"seed"`      // of the order of cells and arms
	TCPSeconds float64       `json:"tcp_seconds"`
	UDPSeconds float64       `json:"udp_seconds"`
	Core       int           `json:"core"`      // of the sender
	TwoCores   bool          `json:"two_cores"` // TCP's receiver on the next one
}

// cell is one kind of traffic. With programs, the kernel counts the run time of each program
// meanwhile, which slows every program down: no rate is measured there.
type cell struct {
	traffic  traffic
	programs bool
}

func (c cell) String() string {
	if c.programs {
		return "programs" + c.traffic.family()
	}
	return c.traffic.String()
}

// cells returns the plan. A quick one has only the most sensitive kinds of traffic.
func (s settings) cells() []cell {
	var plan []cell
	for _, payload := range []int{56, 512, 1400} {
		plan = append(plan, cell{traffic: traffic{v6: true, payload: payload}}, cell{traffic: traffic{payload: payload}})
	}
	for _, tcp := range []tcpTraffic{bulk, segmented, requests} {
		plan = append(plan, cell{traffic: traffic{v6: true, tcp: tcp}}, cell{traffic: traffic{tcp: tcp}})
	}
	if s.Quick {
		plan = []cell{{traffic: traffic{v6: true, payload: 56}}, {traffic: traffic{payload: 56}}, {traffic: traffic{v6: true}}}
	}
	for _, v6 := range []bool{true, false} {
		plan = append(plan, cell{traffic{v6: v6, payload: 56}, true})
	}
	wanted := strings.Split(s.Only, ",")
	return slices.DeleteFunc(plan, func(c cell) bool {
		return !slices.ContainsFunc(wanted, func(part string) bool { return strings.Contains(c.String(), part) })
	})
}

// trial is one run of an arm under one kind of traffic.
type trial struct {
	Arm string `json:"arm"`
	sample
	account
	// Beside is the CPU time of the treatment's processes over the elapsed time. No rate
	// includes it: the rates are of the threads that carry the packets.
	Beside   float64       `json:"beside,omitempty"`
	Programs []programCost `json:"programs,omitempty"`
	// Invalid is how many runs lost packets and were repeated before this one.
	Invalid int `json:"invalid,omitempty"`
}

// block is consecutive trials, one of every arm, in random order, so that other load on the
// machine affects all arms. The trials are in the order in which they ran.
type block struct {
	Trials []trial `json:"trials"`
}

// of returns the run of an arm.
func (b block) of(arm string) (trial, bool) {
	i := slices.IndexFunc(b.Trials, func(r trial) bool { return r.Arm == arm })
	if i < 0 {
		return trial{}, false
	}
	return b.Trials[i], true
}

// outcome is a cell with all its blocks.
type outcome struct {
	cell   cell
	arms   []arm
	blocks []block
}

// runner runs one arm; a lossError says that the run is invalid.
type runner interface {
	run(ctx context.Context, a arm, c cell) (trial, error)
}

// experiment is one whole run: randomised complete blocks.
type experiment struct {
	settings settings
	outcomes []outcome
	runner   runner
	log      *slog.Logger
	now      func() time.Time
}

// mostInvalid is the number of consecutive invalid runs of an arm that ends the experiment.
const mostInvalid = 5

// design fills in the cells, each with the arms that apply to it.
func (x *experiment) design(cells []cell, blocks, costs []arm) {
	for _, c := range cells {
		arms := blocks
		if c.programs {
			arms = costs
		}
		arms = slices.DeleteFunc(slices.Clone(arms), func(a arm) bool { return !a.appliesTo(c) })
		x.outcomes = append(x.outcomes, outcome{cell: c, arms: arms})
	}
}

// measure measures all cells, round by round: a disturbance of a minute affects one block of
// many cells, not all blocks of one. It stops early, without an error, before a block
// that would exceed the budget.
func (x *experiment) measure(ctx context.Context) error {
	random := rand.New(rand.NewPCG(x.settings.Seed, 0))
	begin := x.now()
	took := make([]time.Duration, len(x.outcomes))
	for round := range x.settings.Blocks {
		for _, i := range random.Perm(len(x.outcomes)) {
			o := &x.outcomes[i]
			start := x.now()
			if limit := x.settings.Budget; limit > 0 && start.Sub(begin)+took[i] > limit {
				x.log.Info("budget exhausted", "budget", limit, "round", round+1)
				return nil
			}
			b, err := x.measureBlock(ctx, *o, random)
			if err != nil {
				return fmt.Errorf("measure %s, block %d: %w", o.cell, round+1, err)
			}
			o.blocks = append(o.blocks, b)
			took[i] = x.now().Sub(start)
			x.log.Info("block", "cell", o.cell.String(), "round", round+1, "of", x.settings.Blocks,
				"elapsed", x.now().Sub(begin).Round(time.Second), "result", b.line(*o))
		}
	}
	return nil
}

func (x *experiment) measureBlock(ctx context.Context, o outcome, random *rand.Rand) (block, error) {
	var b block
	for _, i := range random.Perm(len(o.arms)) {
		r, err := x.measureRun(ctx, o.arms[i], o.cell)
		if err != nil {
			return b, fmt.Errorf("arm %s: %w", o.arms[i].name, err)
		}
		b.Trials = append(b.Trials, r)
	}
	return b, nil
}

// measureRun repeats runs that lost packets.
func (x *experiment) measureRun(ctx context.Context, a arm, c cell) (trial, error) {
	for invalid := 0; ; invalid++ {
		r, err := x.runner.run(ctx, a, c)
		r.Invalid = invalid
		var lost lossError
		if !errors.As(err, &lost) {
			return r, err
		}
		x.log.Warn("invalid run", "cell", c.String(), "arm", a.name, "error", err)
		if invalid+1 == mostInvalid {
			return r, fmt.Errorf("%d runs in a row lost packets: %w", mostInvalid, err)
		}
	}
}

// line shows the ratios of one block.
func (b block) line(o outcome) string {
	var parts []string
	for _, a := range o.arms {
		if ratio, ok := b.ratio(a.name, armNone); ok && a.name != armNone && !o.cell.programs {
			parts = append(parts, fmt.Sprintf("%s %.3f", a.name, ratio))
		}
		for _, role := range []string{roleSource, roleDestination} {
			if ns, ok := b.aboveEmpty(a.name, role); ok {
				parts = append(parts, fmt.Sprintf("%s %s %.0f ns", a.name, role, ns))
			}
		}
	}
	return strings.Join(parts, ", ")
}
