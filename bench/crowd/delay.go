package main

import (
	"math/rand/v2"
	"time"

	"pillion.dev/measure"
)

// delaySamples are the simulated packets of a row; each stands for several.
const delaySamples = 24

// delays are single packets on their way into a row: what a host says of them comes
// from the same filters that agents have.
var delays = &measure.Schema{Name: "delays", Doc: "simulated packets", Fields: []measure.Field{
	measure.TimeField,
	{Name: "delay", Type: measure.Int64, Unit: "ns"}, {Name: "ipdv", Type: measure.Int64, Unit: "ns"},
}}

// Columns of a summary, behind the time: min, avg, p50, p90, p99, max of delay and
// of ipdv, then bounds and counts of the histogram.
const (
	delayColumn = 1
	ipdvColumn  = 7
	boundColumn = 13
	countColumn = 14
)

// summary turns delays into the figures of a row. It is not safe for concurrent use.
type summary struct {
	point  *measure.Point
	row    measure.Sample
	sample measure.Sample
	before int64
	random *rand.Rand
	counts []uint64
}

func newSummary(random *rand.Rand) (*summary, error) {
	s := &summary{sample: make(measure.Sample, 3), random: random}
	pipeline := measure.Pipeline{Samples: delaySamples}
	for _, text := range []string{
		"min(delay)", "avg(delay)", "quantiles(delay; 0.5, 0.9, 0.99)", "max(delay)",
		"min(ipdv)", "avg(ipdv)", "quantiles(ipdv; 0.5, 0.9, 0.99)", "max(ipdv)", "histogram(delay)",
	} {
		filter, err := measure.ParseFilter(text)
		if err != nil {
			return nil, err
		}
		pipeline.Filters = append(pipeline.Filters, filter)
	}
	var err error
	if s.point, err = measure.NewPoint(delays); err != nil {
		return nil, err
	}
	_, err = s.point.Subscribe(pipeline, func(_ *measure.Schema, row measure.Sample) error {
		s.row = append(s.row[:0], row...)
		return nil
	})
	return s, err
}

// fill lets packets travel the way. What they tell is valid until the next fill.
func (s *summary) fill(w way, now time.Time, clockOffset time.Duration) error {
	for range delaySamples {
		jitter := time.Duration((15 + 40*s.random.ExpFloat64()) * float64(time.Microsecond))
		queue := time.Duration(s.random.ExpFloat64() * float64(w.queue))
		delay := int64(w.delay + jitter + queue + clockOffset)
		s.sample[0] = measure.TimeValue(now)
		s.sample[1], s.sample[2] = measure.Int64Value(delay), measure.Int64Value(delay-s.before)
		if s.before == 0 {
			s.sample[2] = measure.Int64Value(0)
		}
		s.before = delay
		if err := s.point.Inject(s.sample); err != nil {
			return err
		}
	}
	s.before = 0
	return nil
}

// figures are count, least, mean, quantiles and largest of a column of the summary.
func (s *summary) figures(column int, packets uint64) []measure.Value {
	figures := []measure.Value{measure.Uint64Value(packets)}
	for _, v := range s.row[column : column+6] {
		number, _ := v.Number()
		figures = append(figures, measure.Int64Value(int64(number)))
	}
	return figures
}

// buckets are the histogram, with every packet standing for so many.
func (s *summary) buckets(weight uint64) (bounds, counts measure.Value) {
	s.counts = s.counts[:0]
	for _, n := range s.row[countColumn].List() {
		s.counts = append(s.counts, n*weight)
	}
	return s.row[boundColumn], measure.Uint64ListValue(s.counts)
}
