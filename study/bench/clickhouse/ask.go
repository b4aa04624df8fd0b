package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/archive"
	"pillion.dev/archive/clickhouse"
	"pillion.dev/measure"
	"pillion.dev/study/bench/result"
)

// forms of questions by name; each checks that the answer is complete. i counts the questions.
var forms = map[string]func(ctx context.Context, a archive.Archive, i int, length time.Duration) error{
	"pair": askPair, "all": askAll,
}

func askCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	folder := f.String("folder", "clickhouse", "folder that fill has made")
	name := f.String("form", "pair", "pair: 15 minutes of one pair in windows of 10 s, another one each time; all: the sums of all pairs over all that there is, at most the last 24 h")
	rolled := f.Bool("rolled", true, "answer from roll-ups where they can")
	rounds := f.Int("rounds", 20, "questions after the first one")
	return func(ctx context.Context) (out result.Result, err error) {
		ask, ok := forms[*name]
		if !ok {
			return nil, fmt.Errorf("invalid -form %q: want %s", *name, strings.Join(slices.Sorted(maps.Keys(forms)), ", "))
		}
		if *rounds < 1 {
			return nil, fmt.Errorf("invalid -rounds %d: want a positive number", *rounds)
		}
		options := clickhouse.Options{}
		if !*rolled {
			options.RollUp = -1
		}
		err = with(ctx, *folder, func(s *server) error {
			a, err := s.open(options)
			if err != nil {
				return err
			}
			defer a.Close()
			rows, length, err := extent(ctx, a)
			if err != nil {
				return err
			}
			var took []int64
			for i := range *rounds + 1 {
				begun := time.Now()
				if err := ask(ctx, a, i, length); err != nil {
					return fmt.Errorf("ask: %w", err)
				}
				took = append(took, int64(time.Since(begun)))
			}
			sample := result.NewSample(took[1:])
			out = result.Result{"rows": rows, "first_ms": ms(took[0]), "median_ms": ms(int64(sample.Quantile(0.5))), "max_ms": ms(sample[len(sample)-1])}
			return nil
		})
		return out, err
	}
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// extent is how many rows there are, and of how long.
func extent(ctx context.Context, a archive.Archive) (rows int64, length time.Duration, err error) {
	streams, err := a.Streams(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, s := range streams {
		if s.Schema.Name == measure.Flows.Name && s.Rows > 0 {
			return s.Rows, s.Last.Sub(epoch), nil
		}
	}
	return 0, 0, fmt.Errorf("the archive has no rows of %s; make it with fill", measure.Flows.Name)
}

func askPair(ctx context.Context, a archive.Archive, i int, length time.Duration) error {
	const step = 10 * time.Second
	span := min(15*time.Minute, length.Truncate(time.Minute))
	from := epoch.Add(time.Duration(int64(i)*7919%max(1, int64((length-span)/time.Minute))) * time.Minute)
	answer, err := a.Windows(ctx, archive.Windows{
		Selection: archive.Selection{Source: host(i * 7 % hosts), Destination: host(i * 11 % hosts)}, From: from, To: from.Add(span), Step: step,
	})
	if err != nil {
		return err
	}
	total := uint64(0)
	for i := range answer.Windows {
		total += answer.Windows[i].Packets
	}
	if want := uint64(span/time.Second) * packets; total != want {
		return fmt.Errorf("the windows of %s from %v have %d packets, not %d", host(i*7%hosts), from, total, want)
	}
	return nil
}

func askAll(ctx context.Context, a archive.Archive, _ int, all time.Duration) error {
	length := min(all, 24*time.Hour)
	answer, err := a.Flows(ctx, archive.Flows{From: epoch.Add(all - length), To: epoch.Add(all), Granularity: "pair", Order: "packets", Limit: 2 * hosts * hosts})
	if err != nil {
		return err
	}
	if len(answer.Flows) != hosts*hosts {
		return fmt.Errorf("the answer has %d pairs, not %d", len(answer.Flows), hosts*hosts)
	}
	for _, pair := range answer.Flows {
		if want := uint64(length/time.Second) * packets; pair.Packets != want || pair.Delay.Count != want {
			return fmt.Errorf("%s to %s has %d packets and %d delays, not %d", pair.Src, pair.Dst, pair.Packets, pair.Delay.Count, want)
		}
	}
	return nil
}
