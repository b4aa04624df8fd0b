package send

import (
	"time"

	"pillion.dev/internal/quantity"
	"pillion.dev/measure/histogram"
	"pillion.dev/send/dispatch"
)

// Account sums up what became of a schedule. Its counts add up:
// Scheduled = Sent + LateDropped + Cancelled + Failed.
type Account struct {
	Scheduled uint64 `json:"scheduled"`
	Sent      uint64 `json:"sent"`
	// Bytes of the frames sent, without their frame check sequences.
	Bytes       uint64 `json:"bytes"`
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
	// train, averaged over trains; Asked is the schedule's rate. 0: not defined.
	BitsPerSecond float64 `json:"bits_per_second"`
	Asked         float64 `json:"bits_per_second_asked"`

	bound      time.Duration
	trains     [interleaved]train // by number modulo their count
	bits, took float64
	askedTook  float64
}

// Spread is a distribution in nanoseconds. The quantiles come from a histogram whose
// buckets are at most 3.2 % wide (measure/histogram); the maximum is exact.
type Spread struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`

	// Histogram of all values.
	Histogram histogram.Histogram `json:"-"`
}

// MarshalJSON writes null for what no value has.
func (s Spread) MarshalJSON() ([]byte, error) {
	type figures Spread
	return quantity.MarshalMeasured(!s.Histogram.Empty(), figures(s), "min", "p50", "p95", "p99", "max")
}

// Add counts a value.
func (s *Spread) Add(value int64) {
	if s.Histogram.Empty() {
		s.Min, s.Max = float64(value), float64(value)
	}
	s.Min, s.Max = min(s.Min, float64(value)), max(s.Max, float64(value))
	s.Histogram.Add(value)
}

// Close computes the quantiles.
func (s *Spread) Close() {
	if !s.Histogram.Empty() {
		s.P50, s.P95 = s.Histogram.Quantile(0.5, s.Min, s.Max), s.Histogram.Quantile(0.95, s.Min, s.Max)
		s.P99 = s.Histogram.Quantile(0.99, s.Min, s.Max)
	}
}

// interleaved is how many trains may take turns: flows of a model are trains.
const interleaved = 4096

// train is what is known of the last packet of a train.
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

// IsLate reports whether a packet was sent later than the bound.
func (a *Account) IsLate(r dispatch.Record) bool {
	return r.Fate == dispatch.Sent && time.Duration(r.Departure()-r.Intended) > a.bound
}

// Add counts a packet.
func (a *Account) Add(r dispatch.Record) {
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
		a.sent(r)
		return
	}
	a.trains[r.Train%interleaved].began = false // no distance across a gap
}

func (a *Account) sent(r dispatch.Record) {
	a.Sent++
	a.Bytes += uint64(r.Bytes)
	departed, last := r.Departure(), a.trains[r.Train%interleaved]
	again := last.began && last.number == r.Train
	if !again || last.intended != r.Intended { // otherwise as close as possible, without a time of its own
		a.Lateness.Add(departed - r.Intended)
		if a.IsLate(r) {
			a.Late++
		}
	}
	if again {
		distance, asked := departed-last.departed, r.Intended-last.intended
		a.Interdeparture.Add(max(distance-asked, asked-distance))
		a.bits += float64(r.Bytes) * 8
		a.took += float64(distance)
		a.askedTook += float64(asked)
	}
	a.trains[r.Train%interleaved] = train{true, r.Train, departed, r.Intended}
}

// Cut returns the account so far, closed, and empties it. Distances to packets before the
// cut are counted after it.
func (a *Account) Cut() Account {
	sum := *a
	sum.Close()
	*a = Account{bound: a.bound, Failures: map[string]uint64{}, trains: a.trains}
	return sum
}

// Close computes the distributions and rates.
func (a *Account) Close() {
	a.Lateness.Close()
	a.Interdeparture.Close()
	if a.took > 0 {
		a.BitsPerSecond = a.bits / a.took * 1e9
	}
	if a.askedTook > 0 {
		a.Asked = a.bits / a.askedTook * 1e9
	}
}
