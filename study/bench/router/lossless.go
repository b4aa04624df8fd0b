package main

import (
	"context"
	"flag"
	"fmt"

	"pillion.dev/study/bench/result"
)

// Of the search for the lossless throughput.
const (
	closeEnough = 1.01
	trialLosses = 2 // trials with loss
	trialStalls = 8 // trials in which the sender does not keep the rate

)

func losslessCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var c condition
	parse := c.flags(f)
	first := f.Float64("first", 1000, "rate in packets/s with which the search begins")
	top := f.Float64("top", 1_000_000, "highest rate in packets/s that is tried")
	f.Float64Var(&c.kept, "kept", 0.98, "share of the requested rate below which the sender is the limit")
	trial := f.Float64("trial", 0.3, "duration of a trial in seconds; the last has -packets packets")
	return func(ctx context.Context) (result.Result, error) {
		if err := parse(); err != nil {
			return nil, err
		}
		b, err := openBench(&c)
		if err != nil {
			return nil, err
		}
		rate, err := b.lossless(ctx, &c, *first, *top, *trial)
		if failed := b.close(); err == nil {
			err = failed
		}
		frame := c.payload.mean + float64(headers(c.family))
		return result.Result{"lossless_packets_per_s": rate, "lossless_mbit": rate * frame * 8 / 1e6}, err
	}
}

// lossless finds the highest rate without loss, first in short trials, then in one of all packets.
func (b *bench) lossless(ctx context.Context, c *condition, first, top, trial float64) (rate float64, err error) {
	good, bad := first, top
	for next := good; bad/good > closeEnough; {
		passed, err := b.passes(ctx, c, min(c.packets, int(next*trial)), next)
		if err != nil {
			return 0, err
		}
		if passed {
			good = next
		} else {
			bad = next
		}
		if bad <= first {
			return 0, fmt.Errorf("search lossless throughput: packets are lost at %g a second, or the sender is preempted", first)
		}
		if next = good * 2; next >= bad {
			next = (good + bad) / 2
		}
	}
	for ; good > first; good *= 0.98 {
		passed, err := b.passes(ctx, c, c.packets, good)
		if passed || err != nil {
			return good, err
		}
	}
	return good, nil
}

// passes reports whether all packets arrive in one of several trials, in which the sender
// keeps the rate.
func (b *bench) passes(ctx context.Context, c *condition, n int, rate float64) (bool, error) {
	for lost, slow := 0, 0; lost < trialLosses && slow < trialStalls; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		s, err := b.shoot(c, c.plan(n, rate))
		switch {
		case err != nil:
			return false, err
		case s.received != s.tests+s.rivals:
			lost++
		case float64(n)/s.took.Seconds() < c.kept*rate:
			slow++
		default:
			return true, nil
		}
	}
	return false, nil
}
