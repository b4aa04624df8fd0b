// Command capacity is the workload of the experiments on capacities (study/bench/capacity.yaml, study/bench/paper/s5): hosts at
// both ends of a dumbbell with two routers, whose middle link can have a known rate, alone or beside a competing flow.
// Each run measures once and prints one JSON object. Its subcommands:
//
//	estimate  the capacity of the middle link
//	pairs     how close pairs arrive behind two routers (seed 5, E7)
//	trains    the rate of trains behind two routers (seed 5, E9)
//
// It needs root and iperf3. The links are emulated, and all hosts share one machine: routers forward when the
// sender's processor has time, receive times depend on the scheduler, and rates count frames without preamble and
// frame check sequence.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/send/dispatch"
	"pillion.dev/send/estimator"
	"pillion.dev/send/schedule"
	"pillion.dev/study/bench/result"
)

var commands = map[string]result.Command{
	"estimate": result.Root(estimateCommand), "pairs": result.Root(pairsCommand), "trains": result.Root(trainsCommand),
}

func main() { result.Main("capacity", commands) }

// path is a dumbbell and its load.
type path struct {
	agent     string
	mbit      int
	competing bool
}

func (p *path) flags(f *flag.FlagSet) {
	f.StringVar(&p.agent, "agent", "bin/pillion-agent", "program that emulates links")
	f.BoolVar(&p.competing, "competing", false, "beside a flow of 30 % of the middle link's rate, or of 300 Mbit/s")
}

// on measures on a dumbbell.
func (p *path) on(ctx context.Context, measure func(b *bed) (result.Result, error)) (r result.Result, err error) {
	agent, err := filepath.Abs(p.agent)
	if err != nil {
		return nil, err
	}
	b, err := newBed(ctx, agent, p.mbit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if p.competing {
		stop, err := b.compete(ctx)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	return measure(b)
}

// estimateCommand estimates a known capacity. An estimate that is not valid has neither error nor width; valid and
// holds are 1 or 0.
func estimateCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var p path
	p.flags(f)
	f.IntVar(&p.mbit, "mbit", 100, "rate of the middle link in Mbit/s")
	pairs := f.Int("pairs", 50, "pairs")
	trains := f.Int("trains", 10, "trains of 50 packets")
	seed := f.Uint64("seed", 1, "seed of the plan")
	return func(ctx context.Context) (result.Result, error) {
		if p.mbit <= 0 {
			return nil, fmt.Errorf("invalid -mbit %d: want a positive rate", p.mbit)
		}
		plan := estimator.CapacityPlan{Pairs: *pairs, Trains: *trains, Count: packets, Size: size, Every: 5 * time.Millisecond, Seed: *seed}
		return p.on(ctx, func(b *bed) (result.Result, error) { return b.estimate(ctx, plan) })
	}
}

func (b *bed) estimate(ctx context.Context, plan estimator.CapacityPlan) (result.Result, error) {
	header := *b.header
	p, err := estimator.Open(ctx, estimator.Path{
		Device: nearDevice, Namespace: b.near, Header: &header, Layer: estimator.Frames, Wait: 500 * time.Millisecond,
		Far: estimator.Far{Device: farDevice, Namespace: b.far},
	})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	e, _, err := p.Capacity(ctx, plan, func(string) {})
	if err != nil {
		return nil, err
	}
	var causes []string
	for _, f := range e.Findings {
		if f.Invalidates {
			causes = append(causes, string(f.Assumption))
		}
	}
	r := result.Result{"valid": 0, "causes": strings.Join(causes, ", ")}
	if !e.Valid {
		return r, nil
	}
	truth := float64(b.mbit) * 1e6
	holds := 0
	if e.Rate.Low <= truth && truth <= e.Rate.High {
		holds = 1
	}
	r["valid"], r["holds"], r["mbit"] = 1, holds, e.Rate.Value/1e6
	r["over_truth"], r["error"], r["width"] = e.Rate.Value/truth, math.Abs(e.Rate.Value/truth-1), (e.Rate.High-e.Rate.Low)/truth
	return r, nil
}

func armFlag(f *flag.FlagSet) (parse func() (dispatch.Options, error)) {
	arm := f.String("arm", "pre-dispatch", "pre-dispatch or socket")
	return func() (dispatch.Options, error) {
		options, ok := arms[*arm]
		if !ok {
			return options, fmt.Errorf("invalid -arm %q: want pre-dispatch or socket", *arm)
		}
		return options, nil
	}
}

// pairsCommand measures the gap of pairs at the far end. Measurable is the rate at which frames of 1514 bytes follow
// each other in the median pair: a faster link cannot be measured.
func pairsCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	p := path{mbit: fast}
	p.flags(f)
	arm := armFlag(f)
	count := f.Int("pairs", 50, "pairs")
	return func(ctx context.Context) (result.Result, error) {
		options, err := arm()
		if err != nil {
			return nil, err
		}
		s, err := schedule.Pair(size, schedule.Trains{Count: *count, Every: 3 * time.Millisecond})
		if err != nil {
			return nil, err
		}
		return p.on(ctx, func(b *bed) (result.Result, error) {
			left, arrived, err := b.seen(ctx, options, s, *count, 2)
			if err != nil {
				return nil, err
			}
			r := result.Result{"pairs": *count, "complete": len(arrived)}
			result.NewSample(gaps(left)).Put(r, "sent_gap")
			received := result.NewSample(gaps(arrived))
			received.Put(r, "gap")
			r["measurable_gbps"] = size * 8 / received.Quantile(0.5)
			return r, nil
		})
	}
}

// gaps between the first two packets of trains.
func gaps(trains [][]int64) (list []int64) {
	for _, t := range trains {
		list = append(list, t[1]-t[0])
	}
	return list
}

// trainsCommand measures the rate of trains where the driver of the sender gets them, and at the far end.
func trainsCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	p := path{mbit: fast}
	p.flags(f)
	arm := armFlag(f)
	asked := f.Int("asked", 100, "rate of a train in Mbit/s")
	count := f.Int("trains", 10, "trains of 50 packets")
	return func(ctx context.Context) (result.Result, error) {
		options, err := arm()
		if err != nil {
			return nil, err
		}
		length := time.Duration(packets * size * 8e3 / float64(max(*asked, 1)))
		s, err := schedule.Rate(packets, size, float64(*asked)*1e6, schedule.Trains{Count: *count, Every: length + 5*time.Millisecond})
		if err != nil {
			return nil, err
		}
		return p.on(ctx, func(b *bed) (result.Result, error) {
			left, arrived, err := b.seen(ctx, options, s, *count, packets)
			if err != nil {
				return nil, err
			}
			sent, received := medianRate(left), medianRate(arrived)
			return result.Result{
				"trains": *count, "complete": len(arrived), "sent_mbit": sent, "mbit": received,
				"sent_over_asked": sent / float64(*asked), "over_asked": received / float64(*asked),
				"sent_error": math.Abs(sent/float64(*asked) - 1), "error": math.Abs(received/float64(*asked) - 1),
			}, nil
		})
	}
}

// medianRate of trains in Mbit/s.
func medianRate(trains [][]int64) float64 {
	var mbit []float64
	for _, times := range trains {
		mbit = append(mbit, (packets-1)*size*8e3/float64(times[packets-1]-times[0]))
	}
	return result.Median(mbit)
}
