package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/agent/estimator"
	"pillion.dev/bench/estimate"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/observer"
	"pillion.dev/send/schedule"
)

const (
	size    = 1514
	packets = 50 // of a train
)

// quantiles of all values of a cell.
type quantiles struct {
	P5  float64 `json:"p5"`
	P25 float64 `json:"p25"`
	P50 float64 `json:"p50"`
	P75 float64 `json:"p75"`
	P95 float64 `json:"p95"`
}

func quantilesOf(values []float64) (q quantiles) {
	if len(values) == 0 {
		return q
	}
	return quantiles{quantile(values, 0.05), quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75), quantile(values, 0.95)}
}

func quantile(values []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(p*float64(len(sorted)-1))]
}

// capacityCell is the capacity of a link of known rate, estimated once in each block.
type capacityCell struct {
	Name string `json:"name"`
	Mbit int    `json:"mbit"`
	Load string `json:"load"`
	Runs int    `json:"runs"`
	// Valid estimates, and those of them whose interval holds the truth.
	Valid   int `json:"valid"`
	Holding int `json:"holding"`
	// Error and Width of valid estimates, relative to the truth.
	Error     estimate.Estimate `json:"error"`
	Width     estimate.Estimate `json:"width"`
	Quantiles quantiles         `json:"estimates_bps"`
	// Causes of invalid estimates, by assumption.
	Causes map[string]int `json:"causes,omitempty"`

	off, widths, values []float64
}

func (c *capacityCell) run(ctx context.Context, b *bed, s settings, block int) error {
	stop, err := b.compete(ctx, c.Load)
	if err != nil {
		return err
	}
	defer stop()
	header := *b.header
	p, err := estimator.Open(ctx, estimator.Path{
		Device: nearDevice, Namespace: b.near, Header: &header, Layer: estimator.Frames, Wait: 500 * time.Millisecond,
		Far: estimator.Far{Device: farDevice, Namespace: b.far},
	})
	if err != nil {
		return err
	}
	defer p.Close()
	plan := estimator.CapacityPlan{Pairs: s.Pairs, Trains: s.Trains, Count: packets, Size: size, Every: 5 * time.Millisecond, Seed: s.Seed + uint64(block)}
	e, _, err := p.Capacity(ctx, plan, func(string) {})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	c.Runs++
	if !e.Valid {
		if c.Causes == nil {
			c.Causes = map[string]int{}
		}
		for _, f := range e.Findings {
			if f.Invalidates {
				c.Causes[string(f.Assumption)]++
			}
		}
		return nil
	}
	truth := float64(c.Mbit) * 1e6
	c.Valid++
	if e.Rate.Low <= truth && truth <= e.Rate.High {
		c.Holding++
	}
	c.off = append(c.off, math.Abs(e.Rate.Value/truth-1))
	c.widths = append(c.widths, (e.Rate.High-e.Rate.Low)/truth)
	c.values = append(c.values, e.Rate.Value)
	return nil
}

func (c *capacityCell) close() {
	c.Error, c.Width, c.Quantiles = estimate.Of(c.off), estimate.Of(c.widths), quantilesOf(c.values)
}

// arms of E7 and E9.
var arms = []struct {
	name    string
	options dispatch.Options
}{
	{"pre-dispatch", dispatch.Options{Mechanism: "bpf", NoDriver: true}},
	{"raw socket", dispatch.Options{Mechanism: "packet-sleep"}},
}

// watch opens an observer at one end.
func (b *bed) watch(host string, place observer.Place, device, trains, packets int) (o *observer.Observer, err error) {
	overhead, err := b.header.Overhead()
	if err != nil {
		return nil, err
	}
	const link = 14
	err = b.lab.Do(host, func() error {
		o, err = observer.Open(place, device, overhead-link, trains, packets)
		return err
	})
	return o, err
}

// seen sends trains and returns, by train, when observers saw their packets leave and arrive;
// trains of which they did not see each packet once are left out.
func (b *bed) seen(ctx context.Context, options dispatch.Options, s schedule.Schedule, trains, packets int) (left, arrived [][]int64, err error) {
	near, err := b.watch("a", observer.Departure, b.nearDevice, trains, packets)
	if err != nil {
		return nil, nil, err
	}
	defer near.Close()
	far, err := b.watch("b", observer.Arrival, b.farDevice, trains, packets)
	if err != nil {
		return nil, nil, err
	}
	defer far.Close()
	options.Device, options.Namespace = nearDevice, b.near
	sender, err := dispatch.Open(options)
	if err != nil {
		return nil, nil, err
	}
	defer sender.Close()
	err = send.Run(ctx, sender, send.Job{Schedule: s, Headers: map[string]*frame.Header{"": b.header}}, func(dispatch.Record) {})
	if err != nil {
		return nil, nil, err
	}
	time.Sleep(20 * time.Millisecond) // more than the path takes
	for train := range trains {
		var out, in []int64
		for number := range packets {
			departure, arrival := near.Sight(train, number), far.Sight(train, number)
			if departure.Copies == 1 && arrival.Copies == 1 {
				out, in = append(out, departure.At), append(in, arrival.At)
			}
		}
		if len(in) == packets {
			left, arrived = append(left, out), append(arrived, in)
		}
	}
	if len(arrived) == 0 {
		return nil, nil, fmt.Errorf("observers saw none of %d trains entirely", trains)
	}
	return left, arrived, nil
}

// pairCell is how close pairs arrive behind two routers.
type pairCell struct {
	Name string `json:"name"`
	Arm  string `json:"arm"`
	Load string `json:"load"`
	// Gap50 and Gap90 are quantiles of the gap at the far end in us.
	Gap50 estimate.Estimate `json:"gap_p50_us"`
	Gap90 estimate.Estimate `json:"gap_p90_us"`
	// Measurable is the rate in Gbit/s at which frames of 1514 bytes follow each other in the
	// median pair: a faster link cannot be measured.
	Measurable estimate.Estimate `json:"measurable_gbps"`
	Quantiles  quantiles         `json:"gaps_us"`

	gaps [][]float64 // by block
}

func (p *pairCell) run(ctx context.Context, b *bed, options dispatch.Options, s settings) error {
	stop, err := b.compete(ctx, p.Load)
	if err != nil {
		return err
	}
	defer stop()
	pairs, err := schedule.Pair(size, schedule.Trains{Count: s.Pairs, Every: 3 * time.Millisecond})
	if err != nil {
		return err
	}
	_, times, err := b.seen(ctx, options, pairs, s.Pairs, 2)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	var gaps []float64
	for _, t := range times {
		gaps = append(gaps, float64(t[1]-t[0])/1e3)
	}
	p.gaps = append(p.gaps, gaps)
	return nil
}

func (p *pairCell) close() {
	var half, most, rate []float64
	for _, g := range p.gaps {
		half, most = append(half, quantile(g, 0.5)), append(most, quantile(g, 0.9))
		rate = append(rate, size*8/quantile(g, 0.5)/1e3)
	}
	p.Gap50, p.Gap90, p.Measurable = estimate.Of(half), estimate.Of(most), estimate.Of(rate)
	p.Quantiles = quantilesOf(slices.Concat(p.gaps...))
}

// trainCell is the rate of trains behind two routers, beside the competing flow.
type trainCell struct {
	Name string `json:"name"`
	Arm  string `json:"arm"`
	Mbit int    `json:"mbit_asked"`
	// Actual is the median rate of the trains of a block in Mbit/s at the far end, behind two
	// routers; Error its relative distance from the rate asked for; SentError that of the
	// rate at which the driver of the sender got them.
	Actual    estimate.Estimate `json:"mbit_actual"`
	Error     estimate.Estimate `json:"error"`
	SentError estimate.Estimate `json:"sent_error"`
	Quantiles quantiles         `json:"trains_mbit"`
	Sent      quantiles         `json:"trains_sent_mbit"`

	actual, sent [][]float64 // by block
}

func (t *trainCell) run(ctx context.Context, b *bed, options dispatch.Options, s settings) error {
	stop, err := b.compete(ctx, competing)
	if err != nil {
		return err
	}
	defer stop()
	length := time.Duration(packets * size * 8e3 / float64(t.Mbit))
	trains, err := schedule.Rate(packets, size, float64(t.Mbit)*1e6, schedule.Trains{Count: s.Trains, Every: length + 5*time.Millisecond})
	if err != nil {
		return err
	}
	left, arrived, err := b.seen(ctx, options, trains, s.Trains, packets)
	if err != nil {
		return fmt.Errorf("%s: %w", t.Name, err)
	}
	t.sent, t.actual = append(t.sent, ratesOf(left)), append(t.actual, ratesOf(arrived))
	return nil
}

// ratesOf are the rates of trains in Mbit/s.
func ratesOf(trains [][]int64) (mbit []float64) {
	for _, times := range trains {
		mbit = append(mbit, (packets-1)*size*8e3/float64(times[packets-1]-times[0]))
	}
	return mbit
}

func (t *trainCell) close() {
	t.Error, t.SentError = t.off(t.actual), t.off(t.sent)
	t.Quantiles, t.Sent = quantilesOf(slices.Concat(t.actual...)), quantilesOf(slices.Concat(t.sent...))
	var medians []float64
	for _, rates := range t.actual {
		medians = append(medians, estimate.Median(rates))
	}
	t.Actual = estimate.Of(medians)
}

// off is the relative distance of the median rate of each block from the rate asked for.
func (t *trainCell) off(blocks [][]float64) estimate.Estimate {
	var values []float64
	for _, rates := range blocks {
		values = append(values, math.Abs(estimate.Median(rates)/float64(t.Mbit)-1))
	}
	return estimate.Of(values)
}
