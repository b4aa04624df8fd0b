package main

import (
	"context"
	"math"

	"pillion.dev/probe/router"
	"pillion.dev/study/bench/result"
)

// coffee collects the coffee breaks of a profile, one by one: the profile's own histogram of
// the packets between two has a last bin for all larger numbers.
type coffee struct {
	cancel context.CancelFunc
	done   chan error
	// packets that began their processing before each, since the one before; of the first,
	// since the profile began.
	packets []float64
}

func watchBreaks(ctx context.Context, profile *router.Router) *coffee {
	ctx, cancel := context.WithCancel(ctx)
	c := &coffee{cancel: cancel, done: make(chan error, 1)}
	go func() {
		c.done <- profile.Breaks(ctx, func(b router.Break) error { c.packets = append(c.packets, float64(b.Since)); return nil })
	}()
	return c
}

// leastBreaks are required to say anything about their regularity.
const leastBreaks = 10

// put writes figures of the breaks. Their regularity is null if there were too few breaks: the coefficient of
// variation of independent breaks is 1.
func (c *coffee) put(r result.Result, all *router.Breaks) error {
	c.cancel()
	if err := <-c.done; err != nil {
		return err
	}
	r["breaks"], r["breaks_unread"], r["break_max_us"] = all.Count, all.Unsent, result.US(float64(all.LongNs))
	r["breaks_packets_p50"], r["breaks_cv"] = nil, nil
	if len(c.packets) <= leastBreaks {
		return nil
	}
	between := c.packets[1:]
	counts := sizes{}
	var mean, squares float64
	for _, n := range between {
		counts[int(n)]++
		mean += n / float64(len(between))
	}
	for _, n := range between {
		squares += (n - mean) * (n - mean) / float64(len(between))
	}
	r["breaks_packets_p50"] = result.Median(between)
	r["breaks_cv"] = math.Sqrt(squares) / max(mean, 1)
	addSizes(r, "break_packets", counts)
	return nil
}
