package model

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// Verdict is the outcome of a test of fit.
type Verdict string

const (
	// Consistent: the values give no reason to reject the distribution at the level. It
	// does not prove that they have it; few values are consistent with many distributions.
	Consistent Verdict = "consistent"
	// Inconsistent: such values, or worse, are rarer than the level under the distribution.
	Inconsistent Verdict = "inconsistent"
	// Undecided: too few values for the test.
	Undecided Verdict = "undecided"
)

// Test names a test of fit.
type Test string

const (
	// KolmogorovSmirnov compares the CDF of continuous values; the statistic is the largest
	// difference D, and p follows from the asymptotic distribution with Stephens'
	// correction (JRSS B 32, 1970), good from about 5 values on. It assumes independent
	// values and a law that was not fitted to them.
	KolmogorovSmirnov Test = "kolmogorov-smirnov"
	// ChiSquare is Pearson's test of discrete values, which are merged into at most 200
	// cells of neighbours with an expected count of at least 5 each.
	ChiSquare Test = "chi-square"
	// Equality counts the values that differ from those that must come, where chance has no
	// part: constant(...) and file(...,order=sequential). p is 1 or 0.
	Equality Test = "equality"
)

// Limits of the tests.
const (
	fewest       = 5   // values, and the expected count of a cell
	mostCells    = 200 // more cells make the test weaker against smooth differences
	defaultLevel = 0.01
)

// Options of a test of fit.
type Options struct {
	// Level is the probability of rejecting a distribution that is right; 0 means 0.01.
	Level float64
	// Tolerance, in ns or bytes, is how far a value may lie from a possible one of a
	// discrete distribution and count as that: the accuracy of sending. 0 means half a unit.
	Tolerance float64
}

// Fit is the result of a test of fit.
type Fit struct {
	// What was tested: interval, interval.gap, interval.off, interval.on or size; set by
	// Model.Fit.
	What string `json:"what,omitempty"`
	// Distribution asked for.
	Distribution string `json:"distribution"`
	Test         Test   `json:"test"`
	// Statistic is D, chi-square or a number of differences.
	Statistic float64 `json:"statistic"`
	// Freedom is the degrees of freedom of chi-square.
	Freedom int `json:"freedom,omitempty"`
	// P is the probability of this statistic or a larger one if the distribution is right.
	P float64 `json:"p"`
	// N is the number of values.
	N int `json:"n"`
	// Impossible counts values that a discrete distribution cannot take. Any such value
	// makes the verdict Inconsistent, with P = 0.
	Impossible int     `json:"impossible,omitempty"`
	Level      float64 `json:"level"`
	Verdict    Verdict `json:"verdict"`
}

// Fit tests whether the values, in the order drawn or sent, are consistent with the law. A
// continuous law is tested as such: values that were rounded to more than about a
// thousandth of its spread need Rounded.
func (l *Law) Fit(values []float64, o Options) Fit {
	if o.Level == 0 {
		o.Level = defaultLevel
	}
	if o.Tolerance == 0 {
		o.Tolerance = 0.5
	}
	f := Fit{Distribution: l.String(), N: len(values), Level: o.Level}
	decided := true
	switch {
	case l.value != nil:
		decided = l.equality(&f, values, o)
	case l.Discrete():
		decided = l.chiSquare(&f, values, o)
	default:
		decided = l.kolmogorovSmirnov(&f, values)
	}
	switch {
	case f.Impossible > 0:
		f.P, f.Verdict = 0, Inconsistent
	case !decided:
		f.P, f.Verdict = 1, Undecided
	case f.P < o.Level:
		f.Verdict = Inconsistent
	default:
		f.Verdict = Consistent
	}
	return f
}

func (l *Law) equality(f *Fit, values []float64, o Options) bool {
	f.Test, f.P = Equality, 1
	for i, v := range values {
		if math.Abs(v-l.value(i)) > o.Tolerance {
			f.Statistic++
			f.P = 0
		}
	}
	return len(values) > 0
}

func (l *Law) kolmogorovSmirnov(f *Fit, values []float64) bool {
	f.Test = KolmogorovSmirnov
	n := float64(len(values))
	for i, v := range slices.Sorted(slices.Values(values)) {
		p := l.CDF(v)
		f.Statistic = max(f.Statistic, p-float64(i)/n, float64(i+1)/n-p)
	}
	root := math.Sqrt(n)
	f.P = kolmogorov((root + 0.12 + 0.11/root) * f.Statistic)
	return len(values) >= fewest
}

// kolmogorov is the probability that the limit of sqrt(n) D exceeds x. Each of the two
// series converges quickly on its side.
func kolmogorov(x float64) float64 {
	const terms = 20
	sum := 0.0
	if x < 1.18 {
		for k := 1.0; k < 2*terms && x > 0; k += 2 {
			sum += math.Exp(-k * k * math.Pi * math.Pi / (8 * x * x))
		}
		return math.Min(1, 1-math.Sqrt(2*math.Pi)/math.Max(x, math.SmallestNonzeroFloat64)*sum)
	}
	sign := 1.0
	for k := 1.0; k <= terms; k++ {
		sum += sign * math.Exp(-2*k*k*x*x)
		sign = -sign
	}
	return math.Max(0, 2*sum)
}

func (l *Law) chiSquare(f *Fit, values []float64, o Options) bool {
	f.Test = ChiSquare
	bounds, expected := l.cells(float64(len(values)))
	observed := make([]float64, len(expected))
	// All values from least to most are known to lie where the CDF is neither 0 nor 1.
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		possible := l.nearest(v)
		inside := v >= least && v <= most
		if !inside && l.CDF(math.Floor(v+o.Tolerance)) > 0 && l.CDF(math.Ceil(v-o.Tolerance)-1) < 1 {
			inside, least, most = true, min(least, v), max(most, v)
		}
		if !inside || math.Abs(v-possible) > o.Tolerance {
			f.Impossible++
		}
		observed[sort.SearchFloat64s(bounds, possible)]++
	}
	if f.Freedom = len(expected) - 1; f.Freedom == 0 {
		return false
	}
	for i, e := range expected {
		f.Statistic += (observed[i] - e) * (observed[i] - e) / e
	}
	f.P = mathext.GammaIncRegComp(float64(f.Freedom)/2, f.Statistic/2)
	return true
}

// cells returns the upper bounds of all cells but the last, which has none, and the number
// of n values expected in each. They depend on the law alone.
func (l *Law) cells(n float64) (bounds, expected []float64) {
	least := max(fewest/n, 1.0/mostCells)
	reached := 0.0
	for 1-reached >= 2*least {
		bound := l.quantile(reached + least)
		next := l.CDF(bound)
		if 1-next < least {
			break
		}
		bounds, expected = append(bounds, bound), append(expected, n*(next-reached))
		reached = next
	}
	return bounds, append(expected, n*(1-reached))
}

// rounding is the largest error in sqrt(n)*D that rounding to whole ns may cause; where it
// could be larger, the rounded law is tested instead. At a level of 1 % the limit of
// sqrt(n)*D is 1.63.
const rounding = 0.02

// fitRounded tests values in whole ns or bytes.
func (l *Law) fitRounded(values []float64, o Options) Fit {
	step := 0.0
	for _, v := range values {
		step = max(step, l.CDF(v+0.5)-l.CDF(v-0.5))
	}
	if l.quantity == Size || step/2*math.Sqrt(float64(len(values))) > rounding {
		l = l.Rounded()
	}
	return l.Fit(values, o)
}

// Fit tests the intervals and sizes of the packets of one flow: as drawn, or with the
// intervals that sending achieved. The on periods of an OnOff are tested as drawn, because
// no packet shows their end. A packet whose predecessor was not sent must be left out.
func (m *Model) Fit(packets []Packet, o Options) []Fit {
	var intervals, offs, ons, sizes []float64
	for i, p := range packets {
		if i == 0 || p.Burst != packets[i-1].Burst {
			ons = append(ons, float64(p.On))
		}
		if p.Paused {
			offs = append(offs, float64(p.Interval))
		} else {
			intervals = append(intervals, float64(p.Interval))
		}
		sizes = append(sizes, float64(p.Size))
	}
	var fits []Fit
	add := func(what string, l *Law, values []float64, o Options) {
		f := l.fitRounded(values, o)
		f.What = what
		fits = append(fits, f)
	}
	switch interval := m.Interval.(type) {
	case *Law:
		add("interval", interval, intervals, o)
	case *OnOff:
		add("interval.gap", interval.Gap, intervals, o)
		add("interval.off", interval.Off, offs, o)
		add("interval.on", interval.On, ons, Options{Level: o.Level})
	}
	// The tolerance is one of times.
	add("size", m.Size, sizes, Options{Level: o.Level})
	return fits
}
