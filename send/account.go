package send

import (
	"time"

	"pillion.dev/measure/histogram"
	"pillion.dev/send/dispatch"
)

// Account sums up what became of a schedule. Its counts add up:
// Scheduled = Sent + LateDropped + Cancelled + Failed.
type Account struct {
	Scheduled   uint64 `json:"scheduled"`
	Sent        uint64 `json:"sent"`
	LateDropped uint64 `json:"late_dropped"`
	Cancelled   uint64 `json:"cancelled"`
	Failed      uint64 `json:"failed"`
	// Late packets were sent, but later than the bound.
	Late uint64 `json:"late"`
	// Failures by cause.
	Failures map[string]uint64 `json:"failures,omitempty"`
	// Lateness is the departure behind the due time; Interdeparture the absolute error of
	// the distance to the packet before, within a train. Both in nanoseconds.
	Lateness       Spread `json:"lateness_ns"`
	Interdeparture Spread `json:"interdeparture_error_ns"`
	// BitsPerSecond is the rate achieved between the first and the last packet of each
	// train, averaged over trains; Asked is that of the schedule. 0: not defined.
	BitsPerSecond float64 `json:"bits_per_second"`
	Asked         float64 `json:"bits_per_second_asked"`

	bound      time.Duration
	train      train
	bits, took float64
	askedTook  float64
}

// Spread is a distribution in nanoseconds. The quantiles are those of a histogram whose
// buckets are at most 3.2 % wide (measure/histogram); the maximum is exact.
type Spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`

	// Histogram of all values.
	Histogram histogram.Histogram `json:"-"`
	least     float64
}

func (s *Spread) add(value int64) {
	if s.Histogram.Empty() {
		s.least, s.Max = float64(value), float64(value)
	}
	s.least, s.Max = min(s.least, float64(value)), max(s.Max, float64(value))
	s.Histogram.Add(value)
}

func (s *Spread) close() {
	if !s.Histogram.Empty() {
		s.P50, s.P99 = s.Histogram.Quantile(0.5, s.least, s.Max), s.Histogram.Quantile(0.99, s.least, s.Max)
	}
}

// train is what is known of the train of the last packet.
type train struct {
	began    bool
	number   uint32
	departed int64
	intended int64
}

// NewAccount begins an account in which packets later than bound count as late.
func NewAccount(bound time.Duration) *Account {
	return &Account{bound: bound, Failures: map[string]uint64{}}
}

// Add counts a packet and says whether it was late.
func (a *Account) Add(r dispatch.Record) bool {
	a.Scheduled++
	switch r.Fate {
	case dispatch.Cancelled:
		a.Cancelled++
	case dispatch.DroppedLate:
		a.LateDropped++
	case dispatch.Failed:
		a.Failed++
		a.Failures[r.Error.Error()]++
	case dispatch.Sent:
		return a.sent(r)
	}
	a.train.began = false // no distance across a gap
	return false
}

func (a *Account) sent(r dispatch.Record) bool {
	a.Sent++
	departed := r.Departure()
	lateness := departed - r.Intended
	if last := a.train; last.began && last.number == r.Train && last.intended == r.Intended {
		lateness = 0 // as close as possible to the packet before: without a time of its own
	} else {
		a.Lateness.add(lateness)
	}
	if last := a.train; last.began && last.number == r.Train {
		distance, asked := departed-last.departed, r.Intended-last.intended
		a.Interdeparture.add(max(distance-asked, asked-distance))
		a.bits += float64(r.Bytes) * 8
		a.took += float64(distance)
		a.askedTook += float64(asked)
	}
	a.train = train{true, r.Train, departed, r.Intended}
	late := time.Duration(lateness) > a.bound
	if late {
		a.Late++
	}
	return late
}

// Close computes the distributions and rates.
func (a *Account) Close() {
	a.Lateness.close()
	a.Interdeparture.close()
	if a.took > 0 {
		a.BitsPerSecond = a.bits / a.took * 1e9
	}
	if a.askedTook > 0 {
		a.Asked = a.bits / a.askedTook * 1e9
	}
}
