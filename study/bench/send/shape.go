package main

import (
	"context"
	"flag"
	"time"

	"pillion.dev/send"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
	"pillion.dev/study/bench/result"
)

// kind of schedule.
type kind string

const (
	train kind = "train"
	pair  kind = "pair"
	flush kind = "flush"
	rate  kind = "rate"
)

// shape is a schedule and the way to send it.
type shape struct {
	way
	kind            kind
	trains, packets int
	size            int // of frames
	gap             time.Duration
	mbit            float64
}

func shapeCommand(k kind) result.Command {
	return func(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
		s := shape{kind: k, trains: 1, packets: 2}
		s.flags(f)
		load := loadFlag(f)
		f.IntVar(&s.size, "size", 100, "bytes of a frame")
		switch k {
		case train:
			f.IntVar(&s.trains, "trains", 8, "trains")
			f.IntVar(&s.packets, "packets", 50, "packets of a train")
			f.DurationVar(&s.gap, "gap", 100*time.Microsecond, "distance of packets")
		case pair:
			f.IntVar(&s.trains, "pairs", 50, "pairs")
		case flush:
			f.IntVar(&s.packets, "packets", 100_000, "packets")
		case rate:
			f.IntVar(&s.packets, "packets", 1000, "packets")
			f.Float64Var(&s.mbit, "mbit", 50, "rate of frames in Mbit/s")
		}
		return func(ctx context.Context) (result.Result, error) {
			return beside(ctx, *load, func(b *bed) (result.Result, error) { return s.run(ctx, b) })
		}
	}
}

func (s *shape) run(ctx context.Context, b *bed) (result.Result, error) {
	o, err := b.observe(s.trains, s.packets)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	packets, err := s.schedule()
	if err != nil {
		return nil, err
	}
	records, err := s.way.send(ctx, b, packets)
	if err != nil {
		return nil, err
	}
	return s.compare(records, func(train, number int) (int64, uint64) {
		sight := o.Sight(train, number)
		return sight.At, sight.Copies
	}), nil
}

// send sends a schedule over a bed.
func (w *way) send(ctx context.Context, b *bed, packets schedule.Schedule) (records []dispatch.Record, err error) {
	options, err := w.options(b)
	if err != nil {
		return nil, err
	}
	sender, err := dispatch.Open(options)
	if err != nil {
		return nil, err
	}
	defer sender.Close()
	job := send.Job{Schedule: packets, Headers: map[string]*frame.Header{"": b.header}}
	err = send.Run(ctx, sender, job, func(r dispatch.Record) { records = append(records, r) })
	return records, err
}

func (s *shape) schedule() (schedule.Schedule, error) {
	repeat := schedule.Trains{Count: s.trains, Every: max(2*time.Duration(s.packets)*s.gap, 5*time.Millisecond)}
	if s.kind == rate {
		return schedule.Rate(s.packets, s.size, s.mbit*1e6, repeat)
	}
	return schedule.Train(s.packets, s.size, s.gap, repeat)
}

// compare puts what the sender says beside what the observer saw: error is how far a departure was from the time
// asked for, gap the distance of two packets of a train, returned the observer's time less the one that the sender
// returns.
func (s *shape) compare(records []dispatch.Record, at func(train, number int) (int64, uint64)) result.Result {
	var off, gaps, returned []int64
	var last int64
	unseen, copies := 0, uint64(0)
	for _, r := range records {
		seen, n := at(int(r.Train), int(r.Number))
		if copies += n; n != 1 {
			if n == 0 {
				unseen++
			}
			last = 0
			continue
		}
		returned = append(returned, seen-r.Handed)
		off = append(off, abs(seen-r.Intended))
		if last > 0 && r.Number > 0 {
			gaps = append(gaps, seen-last)
		}
		last = seen
	}
	r := result.Result{"packets": s.trains * s.packets, "unseen": unseen, "copies": copies}
	result.NewSample(returned).Put(r, "returned")
	result.NewSample(gaps).Put(r, "gap")
	errors := result.NewSample(off)
	errors.Put(r, "error")
	putShares(r, errors)
	if mean, _ := result.Sample(gaps).Moments(); s.mbit > 0 && mean > 0 {
		actual := float64(s.size) * 8e3 / mean
		r["mbit"], r["rate_over_asked"] = actual, actual/s.mbit
	}
	return r
}

// putShares writes how many departures were close to the time asked for, or not.
func putShares(r result.Result, errors result.Sample) {
	r["within_10us"], r["within_100us"] = errors.Within(10_000), errors.Within(100_000)
}

func abs(v int64) int64 { return max(v, -v) }
