package estimate_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"pillion.dev/send/estimate"
)

// link is a first-in, first-out queue in front of a link, simulated exactly. Cross traffic
// enters before it and leaves after it.
type link struct {
	rate float64 // bit/s
	// load is the share of the rate that cross traffic takes, poisson how it arrives:
	// packets of 40, 550 and 1500 bytes at exponential intervals, otherwise evenly spaced
	// packets of 200 bytes.
	load    float64
	poisson bool
}

// arrival of a packet at a link in ns; number is -1 for cross traffic.
type arrival struct {
	at     float64
	size   int
	number int
}

// path sends trains over links, one after the other.
type path struct {
	links []link
	// receive turns arrival times into time stamps; nil rounds to whole ns.
	receive func(arrivals []float64) []int64
	r       *rand.Rand
}

func newPath(links ...link) *path {
	return &path{links: links, r: rand.New(rand.NewPCG(14, 7))}
}

const idleBefore = 50e6 // ns of cross traffic before a train

// train sends packets of the sizes at the interval.
func (p *path) train(interval float64, sizes ...int) estimate.Train {
	at := make([]float64, len(sizes))
	for i := range at {
		at[i] = float64(i) * interval
	}
	return p.send(at, sizes)
}

// trainAt sends packets of a size, each an interval after the one before.
func (p *path) trainAt(intervals []float64, size int) estimate.Train {
	at := make([]float64, len(intervals))
	for i, interval := range intervals {
		at[i] = interval
		if i > 0 {
			at[i] += at[i-1]
		}
	}
	return p.send(at, repeat(len(at), size))
}

// send sends packets of the sizes at times.
func (p *path) send(at []float64, sizes []int) estimate.Train {
	offset := 1e9 + p.r.Float64()*1e6
	packets := make([]arrival, len(sizes))
	train := make(estimate.Train, len(sizes))
	for i, size := range sizes {
		packets[i] = arrival{idleBefore + at[i], size, i}
		train[i] = estimate.Packet{SentNS: int64(packets[i].at), Size: size}
	}
	for _, l := range p.links {
		packets = l.forward(packets, p.r)
	}
	times := make([]float64, len(sizes))
	for i, a := range packets {
		times[i] = a.at + offset
	}
	receive := p.receive
	if receive == nil {
		receive = rounded(1)
	}
	for i, at := range receive(times) {
		train[i].ReceivedNS = at
	}
	return train
}

// rounded stamps with a clock of the given resolution in ns.
func rounded(unit float64) func([]float64) []int64 {
	return func(times []float64) []int64 {
		stamps := make([]int64, len(times))
		for i, t := range times {
			stamps[i] = int64(math.Floor(t/unit) * unit)
		}
		return stamps
	}
}

// forward returns when the packets leave the link.
func (l link) forward(packets []arrival, r *rand.Rand) []arrival {
	all := slices.Concat(packets, l.cross(packets[len(packets)-1].at, r))
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	left := make([]arrival, 0, len(packets))
	free := 0.0
	for _, a := range all {
		free = max(free, a.at) + float64(a.size)*8e9/l.rate
		if a.number >= 0 {
			left = append(left, arrival{free, a.size, a.number})
		}
	}
	return left
}

// cross is the cross traffic until a time.
func (l link) cross(until float64, r *rand.Rand) []arrival {
	if l.load == 0 {
		return nil
	}
	sizes := []int{40, 40, 550, 1500}
	mean := 532.5
	if !l.poisson {
		sizes, mean = []int{200}, 200
	}
	interval := mean * 8e9 / (l.load * l.rate)
	var cross []arrival
	for at := r.Float64() * interval; at < until; {
		cross = append(cross, arrival{at, sizes[r.IntN(len(sizes))], -1})
		if l.poisson {
			at += interval * r.ExpFloat64()
		} else {
			at += interval
		}
	}
	return cross
}

// repeat returns n sizes.
func repeat(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// dispersion sends pairs and long trains back to back from a sender's link of 40 Gbit/s.
func (p *path) dispersion(pairs, trains int) []estimate.Train {
	var all []estimate.Train
	const interval = 1500 * 8e9 / 40e9
	for range pairs {
		all = append(all, p.train(interval, 1500, 1500))
	}
	for range trains {
		all = append(all, p.train(interval, repeat(50, 1500)...))
	}
	return all
}
