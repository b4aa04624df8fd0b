package estimator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"pillion.dev/agent/view"
	"pillion.dev/send/estimate"
	"pillion.dev/send/schedule"
)

// Methods of estimating available bandwidth.
const (
	SLoPS = "slops"
	Chirp = "chirp"
)

// AvailablePlan says what to send for an estimate of the available bandwidth.
type AvailablePlan struct {
	Method string
	// Most is the highest rate to send in bit/s, of Layer; 0: a little above the rate at which
	// trains arrive.
	Most float64
	// Streams of each rate, of Packets each; or all chirps.
	Streams, Packets int
	Chirps           int
	// Resolution ends the search once the range is narrower than this share of the highest rate.
	Resolution float64
	Every      time.Duration // least mean time between streams
	Seed       uint64
}

const (
	rangeTrains  = 5  // that find the highest rate
	rangePackets = 50 // of each
	headroom     = 1.2
	chirpTop     = 1.5 // of a chirp's highest rate, above the highest rate of the search
	chirpSpan    = 20  // highest by lowest rate of a chirp
	chirpSize    = 1514
	// streamGap is the gap of packets that streams of low rates have by being smaller.
	streamGap  = 250 * time.Microsecond
	leastBytes = 500
	mostBytes  = 1514
)

// availableResult is the result of RunAvailable.
type availableResult struct {
	about
	Method string `json:"method"`
	// Low and High enclose the available bandwidth in bit/s; Value is the estimate of chirps.
	Value     float64                 `json:"value,omitempty"`
	Low       float64                 `json:"low"`
	High      float64                 `json:"high"`
	Valid     bool                    `json:"valid"`
	Streams   *estimate.Available     `json:"slops,omitempty"`
	Chirps    *estimate.ChirpEstimate `json:"chirp,omitempty"`
	findings  []estimate.Finding
	mostAsked float64
}

// RunAvailable estimates the available bandwidth and prints it.
func RunAvailable(ctx context.Context, options Options, plan AvailablePlan, out io.Writer) error {
	return options.run(ctx, out, func(p *Prober, v view.View) error {
		progress := options.progress("available bandwidth")
		var err error
		if plan.Most == 0 {
			progress("highest rate")
			if plan.Most, err = p.highest(ctx, plan); err != nil {
				return err
			}
		}
		r := availableResult{Method: plan.Method, mostAsked: plan.Most}
		var trains []estimate.Train
		if plan.Method == Chirp {
			var e estimate.ChirpEstimate
			e, trains, err = p.chirps(ctx, plan, progress)
			r.Chirps, r.Value, r.Low, r.High, r.Valid, r.findings = &e, e.Rate.Value, e.Rate.Low, e.Rate.High, e.Valid, e.Findings
			r.about = p.about(estimate.ChirpAssumptions, e.Findings)
		} else {
			var e estimate.Available
			e, trains, err = p.slops(ctx, plan, progress)
			r.Streams, r.Low, r.High, r.Valid, r.findings = &e, e.Low, e.High, e.Valid, e.Findings
			r.about = p.about(estimate.SLoPSAssumptions, e.Findings)
		}
		if err != nil {
			return err
		}
		options.clear()
		if err := printTrains(v, trains); err != nil {
			return err
		}
		if options.Report != nil {
			if err := options.Report.Put(&Availables, availableRow(time.Now(), &r)); err != nil {
				return err
			}
		}
		return v.Summary(r, "%s", r.text())
	})
}

// errNoRate is a path of which no rate is known.
var errNoRate = errors.New("no train arrived entirely; give the highest rate to send: --max-rate")

// highest is the rate that streams are sent at first: above the rate of trains sent back to back.
func (p *Prober) highest(ctx context.Context, plan AvailablePlan) (float64, error) {
	train, err := schedule.Train(rangePackets, mostBytes, 0, schedule.Trains{})
	if err != nil {
		return 0, err
	}
	trains, err := p.Round(ctx, repeat(train, rangeTrains, max(plan.Every, 100*time.Millisecond), rand.New(rand.NewPCG(plan.Seed, 1))), rangeTrains, rangePackets)
	if err != nil {
		return 0, err
	}
	if err := p.heard(); err != nil {
		return 0, err
	}
	rate := estimate.EstimateCapacity(trains).DispersionRate.Value
	if rate == 0 {
		return 0, errNoRate
	}
	return headroom * rate, nil
}

// search is a bisection over rates that keeps a range in which streams disagree.
type search struct {
	passed, stopped    float64 // streams at these rates did and did not pass
	greyLow, greyHigh  float64 // 0: no rate is ambiguous
	resolution, lowest float64
}

// next is the rate to try; false if the range is narrow enough.
func (s *search) next() (float64, bool) {
	low, high := s.passed, s.stopped
	if s.greyLow > 0 {
		switch {
		case s.greyLow-s.passed > s.resolution:
			high = s.greyLow
		case s.stopped-s.greyHigh > s.resolution:
			low = s.greyHigh
		default:
			return 0, false
		}
	}
	rate := (low + high) / 2
	return rate, high-low > s.resolution && rate >= s.lowest
}

// add narrows the range by what streams at a rate showed.
func (s *search) add(rate float64, trend estimate.Trend) {
	switch trend {
	case estimate.Increasing:
		s.stopped = min(s.stopped, rate)
	case estimate.NonIncreasing:
		s.passed = max(s.passed, rate)
	default:
		if s.greyLow == 0 {
			s.greyLow, s.greyHigh = rate, rate
		}
		s.greyLow, s.greyHigh = min(s.greyLow, rate), max(s.greyHigh, rate)
	}
	if s.greyHigh <= s.passed || s.greyLow >= s.stopped { // contradicted by what came after
		s.greyLow, s.greyHigh = 0, 0
	}
}

// slops sends streams at rates that halve the range in which the available bandwidth lies.
func (p *Prober) slops(ctx context.Context, plan AvailablePlan, progress func(string)) (estimate.Available, []estimate.Train, error) {
	random := rand.New(rand.NewPCG(plan.Seed, 2))
	s := search{stopped: plan.Most, resolution: plan.Resolution * plan.Most, lowest: plan.Resolution * plan.Most / 2}
	var all []estimate.Train
	for bits, more := plan.Most, true; more; bits, more = s.next() {
		progress(fmt.Sprintf("streams at %s, between %s and %s", estimate.Bits(bits), estimate.Bits(s.passed), estimate.Bits(s.stopped)))
		streams, err := p.streams(ctx, plan, bits, random)
		if err != nil {
			return estimate.Available{}, nil, err
		}
		if err := p.heard(); err != nil {
			return estimate.Available{}, nil, err
		}
		all = append(all, streams...)
		e := estimate.EstimateAvailable(streams)
		trend := estimate.Ambiguous
		if len(e.Rates) == 1 {
			trend = e.Rates[0].Agreed()
		}
		if s.add(bits, trend); bits == plan.Most && trend == estimate.NonIncreasing {
			break // it has no upper bound
		}
	}
	return estimate.EstimateAvailable(all), all, nil
}

// streams sends streams at a rate in bit/s of the layer.
func (p *Prober) streams(ctx context.Context, plan AvailablePlan, bits float64, random *rand.Rand) ([]estimate.Train, error) {
	size := min(max(int(bits*streamGap.Seconds()/8), leastBytes), mostBytes)
	stream, err := schedule.Rate(plan.Packets, size, p.frameRate(bits, size), schedule.Trains{})
	if err != nil {
		return nil, err
	}
	length := time.Duration(float64(plan.Packets) * float64(p.path.Layer.Bytes(size)) * 8e9 / bits)
	return p.Round(ctx, repeat(stream, plan.Streams, max(plan.Every, idleFactor*length), random), plan.Streams, plan.Packets)
}

// frameRate is the rate of frames of a size that amounts to a rate of the layer.
func (p *Prober) frameRate(bits float64, size int) float64 {
	return bits * float64(size) / float64(p.path.Layer.Bytes(size))
}

// chirps sends chirps over a range of rates up to above the highest.
func (p *Prober) chirps(ctx context.Context, plan AvailablePlan, progress func(string)) (estimate.ChirpEstimate, []estimate.Train, error) {
	random := rand.New(rand.NewPCG(plan.Seed, 3))
	lowest := plan.Most * chirpTop / chirpSpan
	factor := math.Pow(chirpSpan, 1/float64(plan.Packets-2))
	gap := time.Duration(float64(p.path.Layer.Bytes(chirpSize)) * 8e9 / lowest)
	chirp, err := schedule.Chirp(plan.Packets, chirpSize, gap, factor, schedule.Trains{})
	if err != nil {
		return estimate.ChirpEstimate{}, nil, err
	}
	length := time.Duration(float64(gap) * factor / (factor - 1))
	var all []estimate.Train
	for sent := 0; sent < plan.Chirps; sent += plan.Streams {
		n := min(plan.Streams, plan.Chirps-sent)
		progress(fmt.Sprintf("%d of %d chirps of %s to %s", sent, plan.Chirps, estimate.Bits(lowest), estimate.Bits(plan.Most*chirpTop)))
		chirps, err := p.Round(ctx, repeat(chirp, n, max(plan.Every, length), random), n, plan.Packets)
		if err != nil {
			return estimate.ChirpEstimate{}, nil, err
		}
		if err := p.heard(); err != nil {
			return estimate.ChirpEstimate{}, nil, err
		}
		all = slices.Concat(all, chirps)
	}
	return estimate.EstimateChirps(all), all, nil
}
