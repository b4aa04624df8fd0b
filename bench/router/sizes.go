package main

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// Payloads that fit an Ethernet packet and are at least D-ITG's minimum.
const (
	leastPayload = 20
	mostPayload  = 1472
)

// sizes is a distribution of payload lengths.
type sizes struct {
	name string
	draw func(random *rand.Rand) float64
}

func constant(n int) sizes {
	return sizes{"constant " + strconv.Itoa(n), func(*rand.Rand) float64 { return float64(n) }}
}

// gaussian and pareto have the paper's parameters; both have a mean of 600.
var (
	gaussian = sizes{"gaussian 600 200", func(r *rand.Rand) float64 { return 600 + 200*r.NormFloat64() }}
	pareto   = sizes{"pareto 12 550", func(r *rand.Rand) float64 { return 550 * math.Pow(1-r.Float64(), -1.0/12) }}
)

// series draws n sizes, the same for the same seed, clamped to the valid range.
func (s sizes) series(n int, seed uint64) []uint16 {
	random := rand.New(rand.NewPCG(seed, 3))
	all := make([]uint16, n)
	for i := range all {
		all[i] = uint16(min(max(s.draw(random), leastPayload), mostPayload))
	}
	return all
}
