package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pillion.dev/bench/estimate"
	"pillion.dev/probe/router"
)

// Parameters of the short packets with which costs are measured.
const (
	shortPayload = 22     // 64 bytes on Ethernet, the checksum at its end included in neither
	costPackets  = 40_000 // a round
	costRounds   = 9
	ratePackets  = 200_000
	targetHook   = 100.0 // ns
	targetPacket = 600.0 // ns
	targetRatio  = 0.92
)

// hookCost has the kernel's statistics of one program, including reading the clock twice:
// ns a run, over the rounds. AboveEmpty is what exceeds the run of a program that does
// nothing at the same hook, in the same round. Packets of sender and receiver are among the
// runs of hooks that are not of one namespace.
type hookCost struct {
	Hook       string             `json:"hook"`
	Runs       uint64             `json:"runs"`
	NsPerRun   estimate.Estimate  `json:"ns_per_run"`
	AboveEmpty *estimate.Estimate `json:"ns_above_empty,omitempty"`
}

// costs has the costs of the profile itself.
type costs struct {
	Hooks []hookCost `json:"hooks"`
	// NsPerPacket is the cost of all hooks: sender and receiver are on the same machine
	// here, whose other packets and processes also run hooks. NsOnce counts each hook at
	// most once per forwarded packet, as on a machine that only routes.
	NsPerPacket estimate.Estimate `json:"ns_per_forwarded_packet"`
	NsOnce      estimate.Estimate `json:"ns_per_forwarded_packet_each_hook_once"`
	// Rates: on one processor, the CPU time of a packet's whole way, from the sending
	// process to the receiving socket, is measured. A router on a separate processor is
	// overloaded, and the packets that it forwards are counted, so that the profile is
	// compared with the router alone. Causes of coffee breaks are recorded only for
	// WithCauses. Empty has programs that do nothing at the same hooks instead of the
	// profile: no profile with these hooks reaches a higher rate.
	OneProcessor    rates `json:"one_processor"`
	WithCauses      rates `json:"one_processor_with_causes"`
	Empty           rates `json:"one_processor_empty_programs"`
	RouterProcessor rates `json:"router_processor"`
	Targets         []bar `json:"targets"`
}

// bar is what a figure has to reach.
type bar struct {
	What    string            `json:"what"`
	Figure  estimate.Estimate `json:"figure"`
	Target  float64           `json:"target"`
	Verdict estimate.Verdict  `json:"verdict"`
}

// judge compares the costs with the targets; of the hooks that most packets run, the worst.
func (c *costs) judge() {
	var worst, most hookCost // most above an empty program
	for _, h := range c.Hooks {
		if h.Runs <= costRounds*costPackets/10 {
			continue
		}
		if h.NsPerRun.Median > worst.NsPerRun.Median {
			worst = h
		}
		if h.AboveEmpty != nil && (most.AboveEmpty == nil || h.AboveEmpty.Median > most.AboveEmpty.Median) {
			most = h
		}
	}
	atMost := func(what string, e estimate.Estimate, target float64) bar {
		return bar{what, e, target, e.AtMost(target)}
	}
	ratio := c.OneProcessor.Ratio
	c.Targets = []bar{
		atMost("worst hook, "+worst.Hook+", ns", worst.NsPerRun, targetHook),
		atMost("all hooks of a forwarded packet, ns", c.NsPerPacket, targetPacket),
		{"rate at 64 bytes on one processor, of native", ratio, targetRatio, ratio.AtLeast(targetRatio)},
	}
	if most.AboveEmpty != nil {
		c.Targets = append(c.Targets, atMost("worst hook above an empty program, "+most.Hook+", ns", *most.AboveEmpty, targetHook))
	}
}

// rates has packets per second without and with the profile, or what stands in for it,
// alternately.
type rates struct {
	Native   []float64 `json:"native_packets_per_s"`
	Profiled []float64 `json:"profiled_packets_per_s"`
	Ratios   []float64 `json:"ratios"`
	// Ratio is profiled to native.
	Ratio estimate.Estimate `json:"ratio"`
}

func measureCosts(ctx context.Context, s settings) (c costs, err error) {
	if err := onBench(false, func(b *bench) error {
		passage, err := b.openPassage()
		if err != nil {
			return err
		}
		defer passage.close()
		if err := b.costHooks(passage, &c); err != nil {
			return err
		}
		rate := func() (float64, error) { return passage.rate(ratePackets) }
		if c.OneProcessor, err = compare(ctx, s.Pairs, rate, b.profiled(router.Options{})); err != nil {
			return err
		}
		if c.WithCauses, err = compare(ctx, s.Pairs, rate, b.profiled(router.Options{Causes: true})); err != nil {
			return err
		}
		c.Empty, err = compare(ctx, s.Pairs, rate, b.withEmpties)
		return err
	}); err != nil {
		return c, err
	}
	err = onBench(true, func(b *bench) (err error) {
		c.RouterProcessor, err = compare(ctx, s.Pairs, b.forwardedRate, b.profiled(router.Options{}))
		return err
	})
	c.judge()
	return c, err
}

func onBench(steered bool, f func(b *bench) error) error {
	b, err := openBench(steered)
	if err != nil {
		return err
	}
	return errors.Join(f(b), b.close())
}

// costHooks enables the kernel's statistics of the programs.
func (b *bench) costHooks(p *passage, c *costs) (err error) {
	profile, err := b.profile(router.Options{Costs: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	empty, err := attachEmpties(b.testbed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, empty.close()) }()
	if _, err := p.rate(costPackets); err != nil { // warms up
		return err
	}
	var rounds []router.Snapshot
	for range costRounds + 1 {
		s, err := profile.Snapshot()
		if err != nil {
			return err
		}
		floor, err := empty.costs()
		if err != nil {
			return err
		}
		s.Costs = append(s.Costs, floor...)
		if rounds = append(rounds, s); len(rounds) > costRounds {
			break
		}
		if _, err := p.rate(costPackets); err != nil {
			return err
		}
	}
	c.take(rounds)
	return nil
}

// take computes the costs between successive snapshots.
func (c *costs) take(rounds []router.Snapshot) {
	var packet, once []float64
	hooks, runs := map[string][]float64{}, map[string]uint64{}
	for i := range costRounds {
		difference := rounds[i+1].Sub(rounds[i])
		forwarded := float64(max(difference.Account.Forwarded, 1))
		var all, each float64
		for _, p := range difference.Costs {
			if p.Runs == 0 {
				continue
			}
			ns := float64(p.Time.Nanoseconds()) / float64(p.Runs)
			hooks[p.Program], runs[p.Program] = append(hooks[p.Program], round(ns)), runs[p.Program]+p.Runs
			if strings.HasPrefix(p.Program, emptyPrefix) {
				continue
			}
			all += float64(p.Time.Nanoseconds()) / forwarded
			each += ns * min(float64(p.Runs)/forwarded, 1)
		}
		packet, once = append(packet, round(all)), append(once, round(each))
	}
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		if strings.HasPrefix(name, emptyPrefix) {
			continue
		}
		h := hookCost{Hook: name, Runs: runs[name], NsPerRun: estimate.Of(hooks[name])}
		if floor := hooks[emptyAt(name)]; len(floor) == len(hooks[name]) {
			h.AboveEmpty = above(hooks[name], floor)
		}
		c.Hooks = append(c.Hooks, h)
	}
	c.NsPerPacket, c.NsOnce = estimate.Of(packet), estimate.Of(once)
}

// above estimates the difference of costs of the same rounds.
func above(costs, floor []float64) *estimate.Estimate {
	differences := make([]float64, len(costs))
	for i := range costs {
		differences[i] = round(costs[i] - floor[i])
	}
	e := estimate.Of(differences)
	return &e
}

// measurement returns packets per second.
type measurement func() (float64, error)

// compare measures the rate of short packets without and with what with attaches, alternately.
func compare(ctx context.Context, pairs int, rate measurement, with func(measurement) (float64, error)) (r rates, err error) {
	if _, err := rate(); err != nil { // warms up
		return r, err
	}
	for i := range pairs {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		var native, profiled float64
		steps := []func() error{
			func() (err error) { native, err = rate(); return err },
			func() (err error) { profiled, err = with(rate); return err },
		}
		for j := range steps { // their order alternates
			if err := steps[(i+j)%2](); err != nil {
				return r, fmt.Errorf("compare rates: %w", err)
			}
		}
		r.Native, r.Profiled = append(r.Native, native), append(r.Profiled, profiled)
		r.Ratios = append(r.Ratios, round(profiled/native))
	}
	r.Ratio = estimate.Of(r.Ratios)
	return r, nil
}

// profiled returns what measures while a profile with these options runs.
func (b *bench) profiled(o router.Options) func(measurement) (float64, error) {
	return func(rate measurement) (result float64, err error) {
		profile, err := b.profile(o)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, profile.Close()) }()
		return rate()
	}
}

// withEmpties measures with programs that do nothing.
func (b *bench) withEmpties(rate measurement) (result float64, err error) {
	empty, err := attachEmpties(b.testbed)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, empty.close()) }()
	return rate()
}

// forwardedRate sends as fast as possible and returns how many packets arrived per second.
func (b *bench) forwardedRate() (float64, error) {
	s, err := b.shoot(constant(shortPayload).series(ratePackets, 0), 0)
	return round(s.Rate * float64(s.Received) / float64(s.Sent)), err
}
