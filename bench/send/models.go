package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"pillion.dev/bench/estimate"
	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/model"
	"pillion.dev/send/schedule"
)

// drawn is the traffic of a model: how far the inter-departure times that an observer sees differ from
// those drawn.
type drawn struct {
	Name string `json:"name"`
	Law  string `json:"law"`
	// Absolute errors of inter-departure times in microseconds: the median of blocks of each
	// block's quantile.
	P50 estimate.Estimate `json:"p50_us"`
	P95 estimate.Estimate `json:"p95_us"`
	P99 estimate.Estimate `json:"p99_us"`
	// Unseen packets, whose neighbours have no distance.
	Unseen uint64 `json:"unseen"`

	errors [][]float64 // by block
}

const (
	drawnPackets = 1000
	drawnSize    = 200
)

// laws of inter-departure times, all with a mean or a scale of some 200 us. FILE is a file with 1000
// of them.
var laws = []string{
	"constant(200us)", "uniform(100us,300us)", "exponential(200us)", "normal(200us,50us)", "poisson(200us,unit=1us)",
	"pareto(2.5,120us)", "cauchy(200us,20us,max=2ms)", "gamma(2,100us)", "weibull(1.5,220us)",
	"onoff(on=exponential(5ms),off=exponential(1ms),gap=constant(100us))", "file(FILE)",
}

func models() (all []*drawn) {
	for _, law := range laws {
		name, _, _ := strings.Cut(law, "(")
		all = append(all, &drawn{Name: "model, " + name, Law: law})
	}
	return all
}

func (d *drawn) name() string   { return d.Name }
func (d *drawn) beside() string { return idle }

// parse reads the model. Its seed is that of the block, so that blocks differ.
func (d *drawn) parse(seed uint64) (*model.Model, error) {
	law := d.Law
	if strings.Contains(law, "FILE") {
		file, err := os.CreateTemp("", "pillion-intervals-")
		if err != nil {
			return nil, err
		}
		defer os.Remove(file.Name())
		for i := range drawnPackets {
			if _, err := fmt.Fprintf(file, "%dus\n", 100+i*200/drawnPackets); err != nil {
				return nil, err
			}
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
		law = strings.Replace(law, "FILE", file.Name(), 1)
	}
	return model.ParseModel(fmt.Sprintf("interval=%s size=constant(%dB) count=%d seed=%d", law, drawnSize, drawnPackets, seed))
}

func (d *drawn) run(ctx context.Context, x *experiment) error {
	m, err := d.parse(x.Seed + uint64(len(d.errors)))
	if err != nil {
		return err
	}
	o, err := x.bed.observe(1, drawnPackets)
	if err != nil {
		return err
	}
	defer o.Close()
	options := arms[0].options
	options.Device, options.Namespace = nearDevice, x.bed.namespace
	s, err := dispatch.Open(options)
	if err != nil {
		return err
	}
	defer s.Close()
	packets := schedule.Traffic(m, 1, func(int) string { return "" }, nil)
	var records []dispatch.Record
	job := send.Job{Schedule: packets, Headers: map[string]*frame.Header{"": x.bed.header}}
	if err := send.Run(ctx, s, job, func(r dispatch.Record) { records = append(records, r) }); err != nil {
		return err
	}
	var off []float64
	var last, due int64
	for _, r := range records {
		seen := o.Sight(0, int(r.Number))
		if seen.Copies != 1 {
			d.Unseen++
			last = 0
			continue
		}
		if last != 0 {
			off = append(off, math.Abs(float64(seen.At-last-(r.Intended-due)))/1e3)
		}
		last, due = seen.At, r.Intended
	}
	if len(off) > 0 {
		slices.Sort(off)
		d.errors = append(d.errors, off)
	}
	return nil
}

func (d *drawn) close() {
	at := func(q float64) estimate.Estimate {
		var values []float64
		for _, sorted := range d.errors {
			values = append(values, sorted[int(q*float64(len(sorted)-1))])
		}
		return estimate.Of(values)
	}
	d.P50, d.P95, d.P99 = at(0.5), at(0.95), at(0.99)
}

// modelBars compare the models that were run with the bar of the issue.
func modelBars(all []*drawn) (list []estimate.Bar) {
	for _, d := range all {
		if len(d.errors) > 0 {
			list = append(list, estimate.AtMost(d.Name+": error of inter-departure times at p95, us", 2, d.P95))
		}
	}
	return list
}
