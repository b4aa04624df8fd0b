package sla

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"pillion.dev/api/level"
	"pillion.dev/internal/binomial"
)

// Confidence of intervals.
const Confidence = 0.95

// Share is a share of packets with its interval.
type Share struct {
	// Value is the share of the packets that were measured; NaN: there were none.
	Value float64
	// Low and High are the interval of the rate with which the path treats packets so; NaN: there are too few blocks.
	Low, High float64
	// Dependence is the correlation of a block with the next.
	Dependence float64
}

// shareOf is the share of the packets in blocks of time that are bad. Packets of one block depend on each other, so the block is
// the unit that is sampled: the variance is the variance of a ratio over blocks (Cochran 1977, 6.19), times (1+r)/(1-r) if consecutive blocks
// have the correlation r > 0. What it is worth in independent packets goes into the exact interval of a binomial share (Korn and
// Graubard 1998), which holds for rare losses, where a symmetric interval does not.
func shareOf(bad, all []float64) Share {
	none := math.NaN()
	s := Share{Value: none, Low: none, High: none}
	k, n := 0.0, 0.0
	blocks := 0
	for i := range all {
		k += bad[i]
		n += all[i]
		if all[i] > 0 {
			blocks++
		}
	}
	if n == 0 {
		return s
	}
	s.Value = k / n
	if blocks < level.BlocksLeast {
		return s
	}
	independent := n
	if k > 0 && k < n {
		var squares float64
		squares, s.Dependence = residuals(bad, all, s.Value)
		m := float64(blocks)
		variance := m / (m - 1) * squares / (n * n)
		if r := min(s.Dependence, 0.9); r > 0 {
			variance *= (1 + r) / (1 - r)
		}
		if variance > 0 {
			independent = s.Value * (1 - s.Value) / variance
		}
	}
	// Few blocks know their own variance badly.
	tail := (1 + Confidence) / 2
	z, t := distuv.UnitNormal.Quantile(tail), distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(blocks - 1)}.Quantile(tail)
	independent = min(n, independent*(z/t)*(z/t))
	s.Low, s.High = binomial.Interval(s.Value*independent, independent, 1-tail)
	return s
}

// residuals are the sum of squares of what blocks have beyond their share, and the correlation of neighbours with traffic.
func residuals(bad, all []float64, share float64) (squares, correlation float64) {
	products, before, has := 0.0, 0.0, false
	for i := range all {
		if all[i] == 0 {
			has = false
			continue
		}
		e := bad[i] - share*all[i]
		squares += e * e
		if has {
			products += e * before
		}
		before, has = e, true
	}
	if squares > 0 {
		correlation = products / squares
	}
	return squares, correlation
}
