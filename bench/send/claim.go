package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pillion.dev/bench/estimate"
)

// claims of the paper of what was run, in the order of its experiments.
func claims(r *report) []estimate.Claim {
	find := func(k kind, load, arm string, gap time.Duration) *cell {
		i := slices.IndexFunc(r.Cells, func(c *cell) bool {
			return c.Kind == k && c.Load == load && c.Arm == arm && c.AskGap == gap
		})
		return r.Cells[i]
	}
	const close, usual = 10 * time.Microsecond, 100 * time.Microsecond
	lead := func(d time.Duration, gap time.Duration) *cell { return find(train, idle, leadArm(d), gap) }
	ordinary := r.Clock.Sleeps[slices.IndexFunc(r.Clock.Sleeps, func(s *sleep) bool { return !s.Realtime && s.Asked == usual })]
	list := []estimate.Claim{
		estimate.ClaimAtMost("E1", "clock_gettime() has a resolution of nanoseconds", 1000, r.Clock.Between50, "p50 between two readings in ns"),
		estimate.ClaimAtLeast("E2", "the sleep function of user space is not accurate", 10, ordinary.P50, "p50 of the oversleep of clock_nanosleep(100 us) in us"),
		estimate.ClaimAtLeast("E3", "the least inter-departure time of a raw socket is much higher on weak devices", 2,
			overBlocks(find(flush, throttled, "socket", 0).gaps, find(flush, idle, "socket", 0).gaps, mean), "throttled over idle, mean distance in a train of the least gap"),
		estimate.ClaimAtLeast("E4", "pre-dispatch sends trains with smaller inter-departure times", 1,
			overBlocks(find(flush, idle, "socket", 0).gaps, find(flush, idle, "initial", 0).gaps, mean), "socket over initial, mean distance of 100,000 packets sent as close as possible"),
		estimate.ClaimAtLeast("E5", "trains are accurate beside heavy cross traffic with pre-dispatch", 0.96,
			find(train, crossTraffic, "initial", usual).Within10, "share within 10 us, initial, gap 100 us"),
		estimate.ClaimAtLeast("E5", "without pre-dispatch they are not", 10,
			ratio(find(train, crossTraffic, "socket", usual), find(train, crossTraffic, "initial", usual), 0.99), "socket over initial, p99 of the error, gap 100 us"),
	}
	for _, gap := range []time.Duration{close, time.Millisecond} {
		list = append(list,
			estimate.ClaimAtLeast("E6", "a pre-dispatch period of 0 is too short", 2, ratio(lead(1, gap), lead(500*time.Microsecond, gap), 0.5),
				fmt.Sprintf("period 0 over 500 us, p50 of the error, gap %v", gap)),
			estimate.ClaimAtMost("E6", "500 us are as good as 1 ms", 1.5, ratio(lead(500*time.Microsecond, gap), lead(time.Millisecond, gap), 0.5),
				fmt.Sprintf("period 500 us over 1 ms, p50 of the error, gap %v", gap)))
	}
	list = append(list,
		estimate.ClaimAtMost("E8", "the returned time of sending is accurate within microseconds", 10, find(train, idle, "initial", usual).Returned99,
			"p99 of the observer's minus the returned time in us"))
	for _, c := range r.Cells {
		if c.bitsPerSecond == 50e6 {
			list = append(list, estimate.ClaimAtMost("E10", "packets of 1514 bytes at 50 Mbit/s leave 242.2 us apart", 1, c.gapError(242.24),
				"distance of the mean gap from 242.24 us, in us"))
		}
	}
	for _, load := range []string{processor, interfaceLoad} {
		list = append(list,
			estimate.ClaimAtMost("E11", "with pre-dispatch a busy "+load+" has almost no effect", 2,
				ratio(find(train, load, "initial", usual), find(train, idle, "initial", usual), 0.5), "loaded over idle, p50 of the error, initial, gap 100 us"),
			estimate.ClaimAtLeast("E11", "without it, a busy "+load+" disturbs the schedule", 2,
				ratio(find(train, load, "socket", usual), find(train, idle, "socket", usual), 0.99), "loaded over idle, p99 of the error, socket, gap 100 us"))
	}
	for _, s := range r.Speeds {
		list = append(list, estimate.ClaimAtLeast("E12", "rates by tcpdump exceed that of the line ("+s.Arm+")", 1.05, s.Captured, "rate by tcpdump at the sender over that of the line"))
	}
	return slices.DeleteFunc(list, func(c estimate.Claim) bool { return c.Estimate.Values == 0 }) // of what was not run
}

// gapError is the distance of the mean gap from what was asked for.
func (c *cell) gapError(asked float64) estimate.Estimate {
	var values []float64
	for _, b := range c.gaps {
		values = append(values, max(mean(b)-asked, asked-mean(b)))
	}
	return estimate.Of(values)
}

// overBlocks is the ratio of a statistic of two cells, block by block.
func overBlocks(of, to [][]float64, f func(sorted []float64) float64) estimate.Estimate {
	var values []float64
	for i := range min(len(of), len(to)) {
		values = append(values, f(of[i])/f(to[i]))
	}
	return estimate.Of(values)
}

// sorted by the number of the experiment.
func sorted(list []estimate.Claim) []estimate.Claim {
	number := func(c estimate.Claim) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(c.Experiment, "E")) // others come first
		return n
	}
	slices.SortStableFunc(list, func(a, b estimate.Claim) int { return cmp.Compare(number(a), number(b)) })
	return list
}
