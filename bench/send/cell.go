package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"pillion.dev/bench/estimate"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// kind of schedule.
type kind string

const (
	train kind = "train"
	pair  kind = "pair"
	flush kind = "flush"
	rate  kind = "rate"
)

// cell is one way to send one schedule beside one load.
type cell struct {
	Name string `json:"name"`
	Kind kind   `json:"kind"`
	Arm  string `json:"arm"`
	Load string `json:"load"`
	// Size in bytes of the frames; Gap asked for, of trains.
	Size   int           `json:"size"`
	AskGap time.Duration `json:"gap_asked_ns,omitempty"`

	// Departure errors of trains in microseconds: the median of blocks of each block's quantile.
	P50       estimate.Estimate `json:"p50_us"`
	P99       estimate.Estimate `json:"p99_us"`
	Within10  estimate.Estimate `json:"within_10us"`
	Within100 estimate.Estimate `json:"within_100us"`
	Max       float64           `json:"max_us"` // of all blocks
	// Distances in microseconds, of pairs, the longest train and rates.
	Gap       estimate.Estimate `json:"gap_us"`
	MeanGap   estimate.Estimate `json:"mean_gap_us"`
	RateError estimate.Estimate `json:"rate_error"`
	// Returned is from the time that the sender returns to the observer's, in microseconds (E8).
	Returned50 estimate.Estimate `json:"returned_p50_us"`
	Returned99 estimate.Estimate `json:"returned_p99_us"`
	// Packets that the observer did not see, and copies that it saw.
	Unseen uint64 `json:"unseen"`
	Copies uint64 `json:"copies"`

	options       dispatch.Options
	bitsPerSecond float64
	errors        [][]float64 // by block
	gaps          [][]float64
	returned      [][]float64
}

var arms = []struct {
	name    string
	options dispatch.Options
}{
	{"initial", dispatch.Options{Mechanism: "bpf", NoDriver: true}},
	{"on the fly", dispatch.Options{Mechanism: "bpf", Lead: 500 * time.Microsecond, NoDriver: true}},
	{"socket", dispatch.Options{Mechanism: "packet-sleep", NoDriver: true}},
}

// leadArm names a pre-dispatch period (E6).
func leadArm(lead time.Duration) string {
	return fmt.Sprintf("lead %v", lead.Truncate(time.Microsecond))
}

func cells() (all []*cell) {
	add := func(c cell, o dispatch.Options, name string) {
		c.options, c.Name = o, name
		all = append(all, &c)
	}
	for _, l := range loads {
		for _, a := range arms {
			for _, gap := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
				add(cell{Kind: train, Arm: a.name, Load: l, Size: 100, AskGap: gap}, a.options, fmt.Sprintf("%s, train %v, %s", l, gap, a.name))
			}
			if a.name != "on the fly" {
				add(cell{Kind: pair, Arm: a.name, Load: l, Size: 100}, a.options, fmt.Sprintf("%s, pair, %s", l, a.name))
			}
		}
	}
	for _, lead := range []time.Duration{1, 100 * time.Microsecond, 500 * time.Microsecond, time.Millisecond} { // 0 would be initial
		for _, gap := range []time.Duration{10 * time.Microsecond, time.Millisecond} {
			add(cell{Kind: train, Arm: leadArm(lead), Load: idle, Size: 100, AskGap: gap},
				dispatch.Options{Mechanism: "bpf", Lead: lead, NoDriver: true}, fmt.Sprintf("idle, train %v, %s", gap, leadArm(lead)))
		}
	}
	for _, l := range []string{idle, throttled} {
		for _, a := range []int{0, 2} {
			add(cell{Kind: flush, Arm: arms[a].name, Load: l, Size: 100}, arms[a].options, fmt.Sprintf("%s, longest train, %s", l, arms[a].name))
		}
	}
	for _, mbit := range []float64{1, 10, 50, 200, 1000, 5000} {
		add(cell{Kind: rate, Arm: "initial", Load: "idle", Size: 1514, bitsPerSecond: mbit * 1e6}, arms[0].options, fmt.Sprintf("idle, 1514 B at %g Mbit/s", mbit))
	}
	return all
}

func (c *cell) name() string   { return c.Name }
func (c *cell) beside() string { return c.Load }

func (c *cell) run(ctx context.Context, x *experiment) error {
	trains, packets := c.shape(x.settings)
	o, err := x.bed.observe(trains, packets)
	if err != nil {
		return err
	}
	defer o.Close()
	options := c.options
	options.Device, options.Namespace = nearDevice, x.bed.namespace
	s, err := dispatch.Open(options)
	if err != nil {
		return err
	}
	defer s.Close()
	packetsOf, err := c.schedule(x.settings)
	if err != nil {
		return err
	}
	records := make([]dispatch.Record, 0, trains*packets)
	job := send.Job{Schedule: packetsOf, Headers: map[string]*frame.Header{"": x.bed.header}}
	if err := send.Run(ctx, s, job, func(r dispatch.Record) { records = append(records, r) }); err != nil {
		return err
	}
	c.add(records, func(train, number int) (int64, uint64) {
		sight := o.Sight(train, number)
		return sight.At, sight.Copies
	})
	return nil
}

// packets and trains of the cell in a block.
func (c *cell) shape(s settings) (trains, packets int) {
	switch c.Kind {
	case train:
		return s.Trains, s.Packets
	case pair:
		return s.Pairs, 2
	case flush:
		if c.Load == throttled {
			return 1, s.Flush / 10
		}
		return 1, s.Flush
	}
	return 1, max(50, min(20_000, int(c.bitsPerSecond/8/1514*0.25))) // a quarter of a second
}

func (c *cell) schedule(s settings) (schedule.Schedule, error) {
	trains, packets := c.shape(s)
	repeat := schedule.Trains{Count: trains, Every: max(2*time.Duration(packets)*c.AskGap, 5*time.Millisecond)}
	if c.Kind == rate {
		return schedule.Rate(packets, c.Size, c.bitsPerSecond, repeat)
	}
	return schedule.Train(packets, c.Size, c.AskGap, repeat)
}

// add takes a block's departures.
func (c *cell) add(records []dispatch.Record, at func(train, number int) (int64, uint64)) {
	var off, gaps, returned []float64
	var last int64
	for _, r := range records {
		seen, copies := at(int(r.Train), int(r.Number))
		if copies != 1 {
			if copies == 0 {
				c.Unseen++
			}
			c.Copies += copies
			last = 0
			continue
		}
		c.Copies++
		returned = append(returned, float64(seen-r.Handed)/1e3)
		if c.Kind == train {
			off = append(off, math.Abs(float64(seen-r.Intended))/1e3)
		} else if last > 0 && r.Number > 0 {
			gaps = append(gaps, float64(seen-last)/1e3)
		}
		last = seen
	}
	if returned != nil {
		c.returned = append(c.returned, returned)
	}
	if off != nil {
		c.errors = append(c.errors, off)
	}
	if gaps != nil {
		c.gaps = append(c.gaps, gaps)
	}
}

// close computes the estimates.
func (c *cell) close() {
	c.P50, c.P99 = byBlock(c.errors, quantile(0.5)), byBlock(c.errors, quantile(0.99))
	c.Within10, c.Within100 = byBlock(c.errors, share(10)), byBlock(c.errors, share(100))
	c.Returned50, c.Returned99 = byBlock(c.returned, quantile(0.5)), byBlock(c.returned, quantile(0.99))
	for _, b := range c.errors {
		c.Max = max(c.Max, slices.Max(b))
	}
	c.Gap, c.MeanGap = byBlock(c.gaps, quantile(0.5)), byBlock(c.gaps, mean)
	if c.bitsPerSecond > 0 {
		c.RateError = byBlock(c.gaps, func(gaps []float64) float64 {
			return float64(c.Size)*8e6/mean(gaps)/c.bitsPerSecond - 1
		})
	}
}

// byBlock is the median over the blocks of a statistic of each.
func byBlock(blocks [][]float64, f func(sorted []float64) float64) estimate.Estimate {
	var values []float64
	for _, b := range blocks {
		slices.Sort(b)
		values = append(values, f(b))
	}
	return estimate.Of(values)
}

func quantile(q float64) func(sorted []float64) float64 {
	return func(sorted []float64) float64 { return sorted[int(q*float64(len(sorted)-1))] }
}

// share of the values that are at most bound.
func share(bound float64) func(sorted []float64) float64 {
	return func(sorted []float64) float64 {
		n, _ := slices.BinarySearch(sorted, math.Nextafter(bound, math.Inf(1)))
		return float64(n) / float64(len(sorted))
	}
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}

// protocol of the packets.
const protocol = frame.UDP
