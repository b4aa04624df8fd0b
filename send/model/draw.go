package model

import (
	"math"
	"math/rand/v2"
)

// Products are converted to float64 before they are added to something, here and in the
// distributions: a conversion keeps the compiler of some processors from fusing both
// operations, which would round differently.

// fewCounts is the mean below which counting exponential intervals is the faster method.
const fewCounts = 10

// poissonDraws returns a function that draws Poisson counts, times the unit.
func poissonDraws(r *rand.Rand, mean, unit float64) func() float64 {
	if mean < fewCounts {
		return func() float64 {
			count := 0.0
			for passed := r.ExpFloat64(); passed < mean; passed += r.ExpFloat64() {
				count++
			}
			return count * unit
		}
	}
	// Algorithm PTRS of W. Hörmann, The transformed rejection method for generating Poisson
	// random variables, Insurance: Mathematics and Economics 12 (1993); names as there.
	logMean := math.Log(mean)
	b := 0.931 + float64(2.53*math.Sqrt(mean))
	a := -0.059 + float64(0.02483*b)
	inverseAlpha := 1.1239 + 1.1328/(b-3.4)
	vr := 0.9277 - 3.6224/(b-2)
	return func() float64 {
		for {
			u, v := r.Float64()-0.5, r.Float64()
			us := 0.5 - math.Abs(u)
			k := math.Floor(float64((2*a/us+b)*u) + mean + 0.43)
			if us >= 0.07 && v <= vr {
				return k * unit
			}
			if k < 0 || us < 0.013 && v > us {
				continue
			}
			logFactorial, _ := math.Lgamma(k + 1)
			if math.Log(v*inverseAlpha/(a/(us*us)+b)) <= float64(k*logMean)-mean-logFactorial {
				return k * unit
			}
		}
	}
}

// gammaDraws returns a function that draws values of a gamma distribution by the method of
// G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables, ACM
// Transactions on Mathematical Software 26 (2000). A shape below 1 is reached from one
// larger by 1 with the factor U^(1/shape).
func gammaDraws(r *rand.Rand, shape, scale float64) func() float64 {
	small := shape < 1
	d := shape - 1.0/3
	if small {
		d++
	}
	c := 1 / math.Sqrt(9*d)
	return func() float64 {
		factor := scale
		if small {
			factor *= math.Exp(-r.ExpFloat64() / shape)
		}
		for {
			x := r.NormFloat64()
			v := 1 + float64(c*x)
			if v <= 0 {
				continue
			}
			v = v * v * v
			u := r.Float64()
			if math.Log(u) < float64(x*x/2)+d-float64(d*v)+float64(d*math.Log(v)) {
				return factor * d * v
			}
		}
	}
}
