// Package schedule says which packets are to leave when: patterns of trains and probes,
// files, captures, and what a program draws by itself. One format serves all of them, an
// iterator of entries in the order of their times.
//
// It builds no packets (package frame) and sends none (package dispatch).
package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"time"
)

// Entry is one packet of a schedule.
type Entry struct {
	// Due is the intended departure since the start of the schedule.
	Due time.Duration
	// Train and Number, both from 0, name the packet.
	Train, Number uint32
	// Size is the length of the frame in bytes, without its frame check sequence.
	Size int
	// Flow is the name of the flow that gives the headers; empty: the default one.
	Flow string
	// Payload replaces the generated payload, and Frame the whole packet, if not nil.
	Payload, Frame []byte
	// Together asks for the least distance to the next packet.
	Together bool
}

// Schedule is a sequence of entries in the order of Due. A sequence ends with its first
// error.
type Schedule = iter.Seq2[Entry, error]

// Until ends a schedule with the context's error when the context ends.
func Until(ctx context.Context, s Schedule) Schedule {
	return func(yield func(Entry, error) bool) {
		for e, err := range s {
			if err == nil && ctx.Err() != nil {
				e, err = Entry{}, ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// ErrPattern marks an invalid pattern.
var ErrPattern = errors.New("invalid pattern")

// Trains repeats a train.
type Trains struct {
	Count int           // 0: one
	Every time.Duration // from the beginning of a train to the beginning of the next
}

// repeat lays trains one after the other. A train that takes longer than Every delays
// the next one.
func (t Trains) repeat(train func(yield func(Entry) bool) bool) Schedule {
	return func(yield func(Entry, error) bool) {
		var begin, last time.Duration
		for i := range max(t.Count, 1) {
			begin = max(last, time.Duration(i)*t.Every)
			complete := train(func(e Entry) bool {
				e.Due += begin
				e.Train = uint32(i)
				last = e.Due
				return yield(e, nil)
			})
			if !complete {
				return
			}
		}
	}
}

// Repeat sends the packets of a list as each train. A packet's train is the repetition, its
// number the place in the list.
func Repeat(packets []Entry, trains Trains) Schedule {
	return trains.repeat(func(yield func(Entry) bool) bool {
		for i, e := range packets {
			e.Number = uint32(i)
			if !yield(e) {
				return false
			}
		}
		return true
	})
}

// Train is count packets of one size at a fixed distance. A gap of 0 asks for the least
// distance.
func Train(count, size int, gap time.Duration, trains Trains) (Schedule, error) {
	if count < 1 || gap < 0 {
		return nil, fmt.Errorf("%w: train of %d packets, %v apart", ErrPattern, count, gap)
	}
	return trains.repeat(func(yield func(Entry) bool) bool {
		for i := range count {
			e := Entry{Due: time.Duration(i) * gap, Number: uint32(i), Size: size, Together: gap == 0 && i < count-1}
			if !yield(e) {
				return false
			}
		}
		return true
	}), nil
}

// Pair is two packets as close to each other as the mechanism can.
func Pair(size int, trains Trains) (Schedule, error) { return Train(2, size, 0, trains) }

// Rate is count packets whose frames add up to a rate in bit/s. Due times are exact to a
// nanosecond: rounding does not add up.
func Rate(count, size int, bitsPerSecond float64, trains Trains) (Schedule, error) {
	gap := float64(size) * 8e9 / bitsPerSecond
	if count < 1 || !(gap > 0) || gap*float64(count) > math.MaxInt64/2 {
		return nil, fmt.Errorf("%w: %d packets of %d bytes at %g bit/s", ErrPattern, count, size, bitsPerSecond)
	}
	return trains.repeat(func(yield func(Entry) bool) bool {
		for i := range count {
			if !yield(Entry{Due: time.Duration(math.Round(float64(i) * gap)), Number: uint32(i), Size: size}) {
				return false
			}
		}
		return true
	}), nil
}

// Chirp is count packets whose distances shrink from gap by a factor above 1 from each to
// the next (pathChirp).
func Chirp(count, size int, gap time.Duration, factor float64, trains Trains) (Schedule, error) {
	if count < 2 || gap <= 0 || !(factor > 1) {
		return nil, fmt.Errorf("%w: chirp of %d packets from %v by factor %g: at least 2, above 0 and above 1", ErrPattern, count, gap, factor)
	}
	return trains.repeat(func(yield func(Entry) bool) bool {
		due, distance := 0.0, float64(gap)
		for i := range count {
			if !yield(Entry{Due: time.Duration(math.Round(due)), Number: uint32(i), Size: size}) {
				return false
			}
			due += distance
			distance /= factor
		}
		return true
	}), nil
}

// Periodic is a stream with a random start within one period (RFC 3432); count 0 never ends.
func Periodic(count, size int, period time.Duration, seed uint64) (Schedule, error) {
	if period <= 0 {
		return nil, fmt.Errorf("%w: period %v", ErrPattern, period)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	phase := time.Duration(random.Int64N(int64(period)))
	return stream(count, size, func(i int) time.Duration { return phase + time.Duration(i)*period }), nil
}

// Poisson is a stream of packets with exponentially distributed distances (RFC 2330,
// section 11.1.1); count 0 never ends.
func Poisson(count, size int, mean time.Duration, seed uint64) (Schedule, error) {
	if mean <= 0 {
		return nil, fmt.Errorf("%w: mean distance %v", ErrPattern, mean)
	}
	return func(yield func(Entry, error) bool) {
		random, due := rand.New(rand.NewPCG(seed, 0)), 0.0
		stream(count, size, func(int) time.Duration {
			due += random.ExpFloat64() * float64(mean)
			return time.Duration(math.Round(due))
		})(yield)
	}, nil
}

func stream(count, size int, due func(int) time.Duration) Schedule {
	return func(yield func(Entry, error) bool) {
		for i := 0; count == 0 || i < count; i++ {
			if !yield(Entry{Due: due(i), Number: uint32(i), Size: size}, nil) {
				return
			}
		}
	}
}
