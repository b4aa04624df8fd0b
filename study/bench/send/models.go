package main

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"pillion.dev/send/model"
	"pillion.dev/send/schedule"
	"pillion.dev/study/bench/result"
)

const (
	drawnSize = 200
	fileLaw   = "file"
)

// laws of inter-departure times, all with a mean or a scale of some 200 us.
var laws = map[string]string{
	"constant": "constant(200us)", "uniform": "uniform(100us,300us)", "exponential": "exponential(200us)", "normal": "normal(200us,50us)",
	"poisson": "poisson(200us,unit=1us)", "pareto": "pareto(2.5,120us)", "cauchy": "cauchy(200us,20us,max=2ms)", "gamma": "gamma(2,100us)",
	"weibull": "weibull(1.5,220us)", "onoff": "onoff(on=exponential(5ms),off=exponential(1ms),gap=constant(100us))", fileLaw: "",
}

// modelCommand sends the traffic of a model: gap_error is how far the inter-departure times that an observer sees differ
// from those drawn.
func modelCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	w := way{}
	w.flags(f)
	load := loadFlag(f)
	names := strings.Join(slices.Sorted(maps.Keys(laws)), ", ")
	law := f.String("law", "exponential", names)
	packets := f.Int("packets", 1000, "packets")
	seed := f.Uint64("seed", 1, "seed of the model")
	return func(ctx context.Context) (result.Result, error) {
		if _, ok := laws[*law]; !ok {
			return nil, fmt.Errorf("invalid -law %q: want %s", *law, names)
		}
		m, err := parseModel(*law, *packets, *seed)
		if err != nil {
			return nil, err
		}
		return beside(ctx, *load, func(b *bed) (result.Result, error) { return w.traffic(ctx, b, m, *packets) })
	}
}

// parseModel reads the model of a law; fileLaw draws from a file with intervals from 100 to 300 us.
func parseModel(law string, packets int, seed uint64) (*model.Model, error) {
	text := laws[law]
	if law == fileLaw {
		file, err := os.CreateTemp("", "pillion-intervals-")
		if err != nil {
			return nil, err
		}
		defer os.Remove(file.Name())
		for i := range packets {
			if _, err := fmt.Fprintf(file, "%dus\n", 100+i*200/packets); err != nil {
				return nil, err
			}
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
		text = "file(" + file.Name() + ")"
	}
	return model.ParseModel(fmt.Sprintf("interval=%s size=constant(%dB) count=%d seed=%d", text, drawnSize, packets, seed))
}

func (w *way) traffic(ctx context.Context, b *bed, m *model.Model, packets int) (result.Result, error) {
	o, err := b.observe(1, packets)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	records, err := w.send(ctx, b, schedule.Traffic(m, 1, func(int) string { return "" }, nil))
	if err != nil {
		return nil, err
	}
	var off []int64
	var last, due int64
	unseen := 0
	for _, r := range records {
		seen := o.Sight(0, int(r.Number))
		if seen.Copies != 1 {
			unseen, last = unseen+1, 0
			continue
		}
		if last != 0 {
			off = append(off, abs(seen.At-last-(r.Intended-due)))
		}
		last, due = seen.At, r.Intended
	}
	r := result.Result{"packets": packets, "unseen": unseen}
	result.NewSample(off).Put(r, "gap_error")
	return r, nil
}
