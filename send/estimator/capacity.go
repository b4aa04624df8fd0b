package estimator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pillion.dev/send/estimate"
	"pillion.dev/send/schedule"
)

// CapacityPlan says what to send for an estimate of the capacity.
type CapacityPlan struct {
	Pairs, Trains int
	Count         int           // packets of a train
	Size          int           // of frames, in bytes
	Every         time.Duration // mean time between pairs; trains are sent less often
	Seed          uint64        // of the times between pairs and trains
}

const (
	batch = 50 // pairs of a round
	// idleFactor is how much longer than a train takes on the path the path is left alone
	// after it, so that queues drain and the mean load is low.
	idleFactor = 2
)

// Capacity sends pairs and trains back to back and estimates the capacity. Pairs come first:
// they tell how much time trains need. It also returns what the estimate is based on.
func (p *Prober) Capacity(ctx context.Context, plan CapacityPlan, progress func(string)) (estimate.Capacity, []estimate.Train, error) {
	random := rand.New(rand.NewPCG(plan.Seed, 0))
	var all []estimate.Train
	every := plan.Every
	for sent := 0; sent < plan.Pairs; sent += batch {
		n := min(batch, plan.Pairs-sent)
		progress(fmt.Sprintf("%d of %d pairs", sent, plan.Pairs))
		pair, err := schedule.Pair(plan.Size, schedule.Trains{})
		if err != nil {
			return estimate.Capacity{}, nil, err
		}
		pairs, err := p.Round(ctx, repeat(pair, n, every, random), n, 2)
		if err != nil {
			return estimate.Capacity{}, nil, err
		}
		if err := p.heard(); err != nil {
			return estimate.Capacity{}, nil, err
		}
		all = append(all, pairs...)
		every = max(plan.Every, idleFactor*2*perPacket(pairs))
	}
	if plan.Trains > 0 {
		idle := max(plan.Every, idleFactor*time.Duration(plan.Count)*perPacket(all))
		for sent := range plan.Trains {
			progress(fmt.Sprintf("%d of %d trains", sent, plan.Trains))
			train, err := schedule.Train(plan.Count, plan.Size, 0, schedule.Trains{})
			if err != nil {
				return estimate.Capacity{}, nil, err
			}
			trains, err := p.Round(ctx, train, 1, plan.Count)
			if err != nil {
				return estimate.Capacity{}, nil, err
			}
			all = append(all, trains...)
			if err := pause(ctx, spread(idle, random)); err != nil {
				return estimate.Capacity{}, nil, err
			}
		}
	}
	return estimate.EstimateCapacity(all), all, nil
}

// repeat lays trains one after the other, with a random time around every between them so
// that they do not keep step with periodic traffic.
func repeat(train schedule.Schedule, count int, every time.Duration, random *rand.Rand) schedule.Schedule {
	return func(yield func(schedule.Entry, error) bool) {
		var begin, last time.Duration
		for i := range count {
			for e, err := range train {
				e.Due += begin
				e.Train = uint32(i)
				last = e.Due
				if !yield(e, err) || err != nil {
					return
				}
			}
			begin = last + spread(every, random)
		}
	}
}

// spread is a random time from half to one and a half times the mean.
func spread(mean time.Duration, random *rand.Rand) time.Duration {
	return time.Duration((0.5 + random.Float64()) * float64(mean))
}

// perPacket is the longest time between two packets of a train as received, of all but the
// longest tenth.
func perPacket(trains []estimate.Train) time.Duration {
	return time.Duration(estimate.LongGap(trains))
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
