package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"pillion.dev/probe/router"
	"pillion.dev/study/bench/result"
)

// rateCommand measures the rate of short packets. On one processor it is the inverse of the CPU time
// of a packet's whole way, from the sending process to the receiving socket. A router on a
// separate processor is overloaded, and the packets that it forwards are counted. Empty
// programs do nothing at the same hooks: no profile with these hooks reaches a higher rate.
func rateCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	profile := f.String("profile", "none", "none, empty (programs that do nothing at its hooks), profile, or causes (also of coffee breaks)")
	where := f.String("processor", "one", "one for the whole way, or router for the router on its own")
	family := f.Int("family", 4, "4 or 6")
	packets := f.Int("packets", 200_000, "packets")
	return func(context.Context) (r result.Result, err error) {
		if *where != "one" && *where != "router" {
			return nil, fmt.Errorf("invalid -processor %q: want one or router", *where)
		}
		t, err := buildTestbed(layout{family: *family, steered: *where == "router"})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		detach, err := t.attach(*profile)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, detach()) }()
		var rate float64
		if *where == "router" {
			rate, err = t.forwardedRate(*packets)
		} else {
			rate, err = t.passageRate(*packets)
		}
		return result.Result{"packets_per_s": rate}, err
	}
}

// attach attaches what a rate is measured with.
func (t *testbed) attach(profile string) (detach func() error, err error) {
	switch profile {
	case "none":
		return func() error { return nil }, nil
	case "empty":
		e, err := attachEmpties(t)
		if err != nil {
			return nil, err
		}
		return e.close, nil
	case "profile", "causes":
		p, err := t.profile(router.Options{Causes: profile == "causes"})
		if err != nil {
			return nil, err
		}
		return p.Close, nil
	}
	return nil, fmt.Errorf("invalid -profile %q: want none, empty, profile or causes", profile)
}

// passageRate is the rate of one processor, after as many packets that warm it up as a burst has.
func (t *testbed) passageRate(packets int) (float64, error) {
	p, err := t.openPassage()
	if err != nil {
		return 0, err
	}
	defer p.close()
	if _, err := p.rate(16 * burst); err != nil {
		return 0, err
	}
	return p.rate(packets)
}

// forwardedRate sends as fast as possible and returns how many packets arrived per second.
func (t *testbed) forwardedRate(packets int) (float64, error) {
	b := &bench{testbed: t}
	if err := b.open(0); err != nil {
		return 0, errors.Join(err, b.closeFlows())
	}
	c := &condition{layout: t.layout, packets: packets}
	c.payload, _ = parsePayload(fmt.Sprint(shortPayload))
	s, err := b.shoot(c, c.plan(packets, 0))
	return float64(s.received) / s.took.Seconds(), errors.Join(err, b.closeFlows())
}

// hooksCommand reports the kernel's statistics of the programs: ns a run, which includes
// reading the clock twice. What exceeds the time of an empty program at the same hook, in the same
// run, is above_empty. Packets of sender and receiver, and of other processes, are among the
// runs of hooks that are not of one namespace: once counts each hook at most once per
// forwarded packet, as on a machine that only routes.
func hooksCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	family := f.Int("family", 4, "4 or 6")
	packets := f.Int("packets", 40_000, "packets")
	return func(context.Context) (r result.Result, err error) {
		t, err := buildTestbed(layout{family: *family})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		profile, err := t.profile(router.Options{Costs: true})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, profile.Close()) }()
		empty, err := attachEmpties(t)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, empty.close()) }()
		p, err := t.openPassage()
		if err != nil {
			return nil, err
		}
		defer p.close()
		var read [2]router.Snapshot
		for i := range read {
			if _, err := p.rate(*packets); err != nil { // the first warms up
				return nil, err
			}
			if read[i], err = profile.Snapshot(); err != nil {
				return nil, err
			}
			floor, err := empty.costs()
			if err != nil {
				return nil, err
			}
			read[i].Costs = append(read[i].Costs, floor...)
		}
		return hookCosts(read[1].Sub(read[0])), nil
	}
}

// hookCosts are of the programs that most packets run.
func hookCosts(s router.Snapshot) result.Result {
	forwarded := float64(max(s.Account.Forwarded, 1))
	ns := map[string]float64{}
	var all, once, worst, above float64
	for _, p := range s.Costs {
		if p.Runs == 0 {
			continue
		}
		ns[p.Program] = float64(p.Time.Nanoseconds()) / float64(p.Runs)
		if strings.HasPrefix(p.Program, emptyPrefix) {
			continue
		}
		all += float64(p.Time.Nanoseconds()) / forwarded
		once += ns[p.Program] * min(float64(p.Runs)/forwarded, 1)
	}
	r := result.Result{"all_ns": all, "once_ns": once}
	for _, p := range s.Costs {
		if !strings.HasPrefix(p.Program, hookPrefix) || float64(p.Runs) < forwarded/10 {
			continue
		}
		name := strings.TrimPrefix(p.Program, hookPrefix)
		r[name+"_ns"], worst = ns[p.Program], max(worst, ns[p.Program])
		if floor, ok := ns[emptyAt(p.Program)]; ok {
			r[name+"_above_empty_ns"], above = ns[p.Program]-floor, max(above, ns[p.Program]-floor)
		}
	}
	r["worst_ns"], r["worst_above_empty_ns"] = worst, above
	return r
}
