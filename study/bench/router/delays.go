package main

import (
	"context"
	"errors"
	"flag"

	"pillion.dev/probe/router"
	"pillion.dev/study/bench/result"
)

func delaysCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var c condition
	parse := c.flags(f)
	return func(ctx context.Context) (result.Result, error) {
		if err := parse(); err != nil {
			return nil, err
		}
		return delays(ctx, &c)
	}
}

// delays measures the delays of each packet under one condition.
func delays(ctx context.Context, c *condition) (r result.Result, err error) {
	b, err := openBench(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	all := c.plan(c.packets, c.rate)
	profile, err := b.profile(router.Options{
		Match: router.Match{DestinationPort: port}, In: []string{"in0", "in2"}, Records: true, RecordBytes: recordBytes(len(all)), Break: c.coffee,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, profile.Close()) }()
	breaks := watchBreaks(ctx, profile)
	s, err := b.shoot(c, all)
	if err != nil {
		return nil, err
	}
	if err := settle(ctx, profile); err != nil {
		return nil, err
	}
	end, err := profile.Snapshot()
	if err != nil {
		return nil, err
	}
	seen, err := readRecords(ctx, profile, b.address(rivalNetwork, 2), end.Account.Forwarded-end.Account.Below-profile.Lost())
	if err != nil {
		return nil, err
	}
	r = result.Result{"rate": float64(s.tests) / s.took.Seconds(), "stalls_us": result.US(float64(s.stalls.Nanoseconds()))}
	if c.rate > 0 {
		r["rate_kept"] = float64(c.packets) / c.rate / s.took.Seconds()
	}
	seen.put(r)
	newLedger(&s, &end.Account, seen).put(r)
	return r, breaks.put(r, &end.Breaks)
}
