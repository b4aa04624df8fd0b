package main

import (
	"context"
	"errors"
	"fmt"

	"pillion.dev/probe/router"
)

// Parameters of the short packets with which costs are measured.
const (
	shortPayload = 22 // 64 bytes on Ethernet, the checksum at its end included in neither
	costPackets  = 300_000
	ratePackets  = 200_000
	targetHook   = 100.0 // ns
	targetPacket = 600.0 // ns
	targetRatio  = 0.92
)

// hookCost has the kernel's statistics of one program, including reading the clock twice.
type hookCost struct {
	Hook     string  `json:"hook"`
	Runs     uint64  `json:"runs"`
	NsPerRun float64 `json:"ns_per_run"`
}

// costs has the costs of the profile itself.
type costs struct {
	Hooks       []hookCost `json:"hooks"`
	WorstHookNs float64    `json:"worst_hook_ns"`
	// NsPerPacket is the cost of all hooks: sender and receiver are on the same machine
	// here, whose other packets and processes also run hooks. NsOnce counts each hook at
	// most once per forwarded packet, as on a machine that only routes.
	NsPerPacket float64 `json:"ns_per_forwarded_packet"`
	NsOnce      float64 `json:"ns_per_forwarded_packet_each_hook_once"`
	// Rates: on one processor, the CPU time of a packet's whole way, from the sending
	// process to the receiving socket, is measured. A router on a separate processor is
	// overloaded, and the packets that it forwards are counted, so that the profile is
	// compared with the router alone. Causes of coffee breaks are recorded only for
	// WithCauses.
	OneProcessor    rates `json:"one_processor"`
	WithCauses      rates `json:"one_processor_with_causes"`
	RouterProcessor rates `json:"router_processor"`
	Met             struct {
		Hook   bool `json:"100_ns_per_hook"`
		Packet bool `json:"600_ns_per_packet"`
		Ratio  bool `json:"0.92_of_native_on_one_processor"`
	} `json:"targets_met"`
}

// rates has packets per second without and with the profile, alternately.
type rates struct {
	Native   []float64 `json:"native_packets_per_s"`
	Profiled []float64 `json:"profiled_packets_per_s"`
	Ratios   []float64 `json:"ratios"`
	Ratio    float64   `json:"median_ratio"`
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
		if c.OneProcessor, err = b.compare(ctx, s.Pairs, router.Options{}, rate); err != nil {
			return err
		}
		c.WithCauses, err = b.compare(ctx, s.Pairs, router.Options{Causes: true}, rate)
		return err
	}); err != nil {
		return c, err
	}
	err = onBench(true, func(b *bench) (err error) {
		c.RouterProcessor, err = b.compare(ctx, s.Pairs, router.Options{}, b.forwardedRate)
		return err
	})
	c.Met.Hook = c.WorstHookNs <= targetHook
	c.Met.Packet = c.NsPerPacket <= targetPacket
	c.Met.Ratio = c.OneProcessor.Ratio >= targetRatio
	return c, err
}

func onBench(steered bool, f func(b *bench) error) error {
	b, err := openBench(steered)
	if err != nil {
		return err
	}
	return errors.Join(f(b), b.close())
}

// costHooks enables the kernel's statistics of the programs. Hooks that hardly any packet
// runs are reported but not compared with the target.
func (b *bench) costHooks(p *passage, c *costs) (err error) {
	profile, err := b.profile(router.Options{Costs: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	if _, err := p.rate(costPackets / 10); err != nil { // warms up
		return err
	}
	before, err := profile.Snapshot()
	if err != nil {
		return err
	}
	if _, err := p.rate(costPackets); err != nil {
		return err
	}
	after, err := profile.Snapshot()
	if err != nil {
		return err
	}
	difference := after.Sub(before)
	forwarded := float64(max(difference.Account.Forwarded, 1))
	for _, p := range difference.Costs {
		if p.Runs == 0 {
			continue
		}
		each := round(float64(p.Time.Nanoseconds()) / float64(p.Runs))
		c.Hooks = append(c.Hooks, hookCost{p.Program, p.Runs, each})
		c.NsPerPacket += float64(p.Time.Nanoseconds()) / forwarded
		c.NsOnce += each * min(float64(p.Runs)/forwarded, 1)
		if float64(p.Runs) > forwarded/10 {
			c.WorstHookNs = max(c.WorstHookNs, each)
		}
	}
	c.NsPerPacket, c.NsOnce = round(c.NsPerPacket), round(c.NsOnce)
	return nil
}

// compare measures the rate of short packets without and with the profile, alternately.
func (b *bench) compare(ctx context.Context, pairs int, o router.Options, rate func() (float64, error)) (r rates, err error) {
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
			func() (err error) { profiled, err = b.profiled(o, rate); return err },
		}
		for j := range steps { // their order alternates
			if err := steps[(i+j)%2](); err != nil {
				return r, fmt.Errorf("compare rates: %w", err)
			}
		}
		r.Native, r.Profiled = append(r.Native, native), append(r.Profiled, profiled)
		r.Ratios = append(r.Ratios, round(profiled/native))
	}
	r.Ratio = median(r.Ratios)
	return r, nil
}

func (b *bench) profiled(o router.Options, rate func() (float64, error)) (result float64, err error) {
	profile, err := b.profile(o)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	return rate()
}

// forwardedRate sends as fast as possible and returns how many packets arrived per second.
func (b *bench) forwardedRate() (float64, error) {
	s, err := b.shoot(constant(shortPayload).series(ratePackets, 0), 0)
	return round(s.Rate * float64(s.Received) / float64(s.Sent)), err
}
