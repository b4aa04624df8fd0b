package model

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
)

// kind says how a parameter is read and what it may be.
type kind int

const (
	amount         kind = iota // a time or size >= 0
	positiveAmount             // a time or size > 0
	shape                      // a number > 0
)

// parameter of a distribution.
type parameter struct {
	name string
	kind kind
}

// entry describes one distribution to the parser.
type entry struct {
	name       string
	parameters []parameter
	// build makes the distribution of parameters in ns or bytes. Distributions of times that
	// count units get the length of a unit, others 1.
	build func(p []float64, unit float64) (base, error)
}

// entries hold every distribution whose parameters are numbers.
var entries = []entry{
	{"constant", []parameter{{"value", amount}}, constant},
	{"uniform", []parameter{{"low", amount}, {"high", amount}}, uniform},
	{"exponential", []parameter{{"mean", positiveAmount}}, exponential},
	{"normal", []parameter{{"mean", amount}, {"sd", positiveAmount}}, normal},
	{"poisson", []parameter{{"mean", positiveAmount}}, poisson},
	{"pareto", []parameter{{"shape", shape}, {"scale", positiveAmount}}, pareto},
	{"cauchy", []parameter{{"location", amount}, {"scale", positiveAmount}}, cauchy},
	{"gamma", []parameter{{"shape", shape}, {"scale", positiveAmount}}, gamma},
	{"weibull", []parameter{{"shape", shape}, {"scale", positiveAmount}}, weibull},
}

func constant(p []float64, _ float64) (base, error) {
	value := p[0]
	always := func() float64 { return value }
	return base{
		cdf:     func(x float64) float64 { return indicator(x >= value) },
		partial: func(a, b float64) float64 { return value * indicator(a < value && value <= b) },
		start:   func(rand.Source) func() float64 { return always },
		nearest: func(float64) float64 { return value },
		value:   func(int) float64 { return value },
	}, nil
}

func uniform(p []float64, _ float64) (base, error) {
	low, high := p[0], p[1]
	if low >= high {
		return base{}, faultf("low must be less than high")
	}
	return base{
		cdf: func(x float64) float64 { return min(max((x-low)/(high-low), 0), 1) },
		partial: func(a, b float64) float64 {
			a, b = max(a, low), min(b, high)
			return (b - a) * (b + a) / 2 / (high - low)
		},
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return low + float64(r.Float64()*(high-low)) }
		},
	}, nil
}

func exponential(p []float64, _ float64) (base, error) {
	mean := p[0]
	tail := func(a float64) float64 {
		if a = max(a, 0); math.IsInf(a, 1) {
			return 0
		}
		return (a + mean) * math.Exp(-a/mean)
	}
	return base{
		cdf:     func(x float64) float64 { return -math.Expm1(-max(x, 0) / mean) },
		partial: func(a, b float64) float64 { return tail(a) - tail(b) },
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return mean * r.ExpFloat64() }
		},
	}, nil
}

func normal(p []float64, _ float64) (base, error) {
	mean, sd := p[0], p[1]
	cdf := func(x float64) float64 { return math.Erfc((mean-x)/(sd*math.Sqrt2)) / 2 }
	density := func(x float64) float64 { // times the variance
		z := (x - mean) / sd
		return sd * math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
	}
	return base{
		cdf:     cdf,
		partial: func(a, b float64) float64 { return mean*(cdf(b)-cdf(a)) - (density(b) - density(a)) },
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return mean + float64(sd*r.NormFloat64()) }
		},
	}, nil
}

// poissonLimit keeps the counts where the CDF is exact.
const poissonLimit = 1e9

func poisson(p []float64, unit float64) (base, error) {
	mean := p[0] / unit
	if mean > poissonLimit {
		return base{}, faultf("a mean of %g units is too large; at most %g is allowed", mean, poissonLimit)
	}
	cdf := func(count float64) float64 {
		switch {
		case count < 0:
			return 0
		case math.IsInf(count, 1):
			return 1
		}
		return mathext.GammaIncRegComp(math.Floor(count)+1, mean)
	}
	return base{
		cdf: func(x float64) float64 { return cdf(x / unit) },
		partial: func(a, b float64) float64 {
			return p[0] * (cdf(b/unit-1) - cdf(a/unit-1))
		},
		start:   func(source rand.Source) func() float64 { return poissonDraws(rand.New(source), mean, unit) },
		nearest: func(x float64) float64 { return math.Round(x/unit) * unit },
	}, nil
}

func pareto(p []float64, _ float64) (base, error) {
	alpha, scale := p[0], p[1]
	return base{
		cdf: func(x float64) float64 { return -math.Expm1(-alpha * math.Log(max(x, scale)/scale)) },
		partial: func(a, b float64) float64 {
			a, b = max(a, scale)/scale, max(b, scale)/scale
			if alpha == 1 {
				return scale * math.Log(b/a)
			}
			rest := 1 - alpha
			return scale * alpha / rest * (math.Pow(b, rest) - math.Pow(a, rest))
		},
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return scale * math.Exp(r.ExpFloat64()/alpha) }
		},
	}, nil
}

func cauchy(p []float64, _ float64) (base, error) {
	location, scale := p[0], p[1]
	cdf := func(x float64) float64 { return 0.5 + math.Atan((x-location)/scale)/math.Pi }
	return base{
		cdf: cdf,
		partial: func(a, b float64) float64 {
			if math.IsInf(b, 1) {
				return b
			}
			a, b, probability := (a-location)/scale, (b-location)/scale, cdf(b)-cdf(a)
			return location*probability + scale/(2*math.Pi)*(math.Log1p(b*b)-math.Log1p(a*a))
		},
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return location + float64(scale*math.Tan(math.Pi*(r.Float64()-0.5))) }
		},
	}, nil
}

func gamma(p []float64, _ float64) (base, error) {
	alpha, scale := p[0], p[1]
	return base{
		cdf: func(x float64) float64 { return lowerGamma(alpha, x/scale) },
		partial: func(a, b float64) float64 {
			return alpha * scale * (lowerGamma(alpha+1, b/scale) - lowerGamma(alpha+1, a/scale))
		},
		start: func(source rand.Source) func() float64 { return gammaDraws(rand.New(source), alpha, scale) },
	}, nil
}

func weibull(p []float64, _ float64) (base, error) {
	k, scale := p[0], p[1]
	mean := scale * math.Gamma(1+1/k)
	power := func(x float64) float64 { return math.Pow(max(x, 0)/scale, k) }
	return base{
		cdf: func(x float64) float64 { return -math.Expm1(-power(x)) },
		partial: func(a, b float64) float64 {
			return mean * (lowerGamma(1+1/k, power(b)) - lowerGamma(1+1/k, power(a)))
		},
		start: func(source rand.Source) func() float64 {
			r := rand.New(source)
			return func() float64 { return scale * math.Pow(r.ExpFloat64(), 1/k) }
		},
	}, nil
}

// lowerGamma is the regularised lower incomplete gamma function, also at its ends.
func lowerGamma(a, x float64) float64 {
	switch {
	case x <= 0:
		return 0
	case math.IsInf(x, 1):
		return 1
	}
	return mathext.GammaIncReg(a, x)
}

func indicator(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
