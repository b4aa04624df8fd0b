package model

import (
	"math"
	"math/rand/v2"
	"strings"
)

// leastMass is the share of a distribution that bounds must hold: a value then takes at
// most 100 draws on average.
const leastMass = 0.01

// Law is a distribution of independent values with a known CDF. Only a file that is read
// in order has no independent values; its CDF describes the whole file.
type Law struct {
	quantity Quantity
	name     string
	// args are the parameters as they are written again, without the bounds.
	args []string
	base
	// min and max are the bounds, inclusive; max is +Inf if there is none.
	min, max float64
	// below is the probability under min, mass that within the bounds.
	below, mass float64
}

// base is a distribution before truncation.
type base struct {
	// cdf is P(X <= x).
	cdf func(x float64) float64
	// partial is E[X; a < X <= b], where b can be +Inf.
	partial func(a, b float64) float64
	// start returns a function that draws from the source.
	start func(source rand.Source) func() float64
	// nearest is the possible value nearest to x; nil for continuous distributions. All
	// discrete ones take whole nanoseconds or bytes.
	nearest func(x float64) float64
	// value is what draw number i must be; nil where chance decides.
	value func(i int) float64
	// within returns the distribution of the values within the bounds; nil where they are
	// drawn again instead.
	within func(min, max float64) (base, error)
}

// truncated returns the law within the bounds.
func (l Law) truncated(min, max float64) (*Law, error) {
	l.min, l.max = min, max
	if within := l.within; within != nil {
		var err error
		if l.base, err = within(min, max); err != nil {
			return nil, err
		}
		l.within = within
	}
	l.below = l.cdf(l.open())
	l.mass = 1 - l.below
	if !math.IsInf(max, 1) {
		l.mass = l.cdf(max) - l.below
	}
	switch {
	case min > max:
		return nil, faultf("min is larger than max")
	case l.mass < leastMass || math.IsNaN(l.mass):
		return nil, faultf("the values from %s hold %.2g %% of the distribution; at least %g %% is required",
			l.bounds(" to "), 100*math.Max(l.mass, 0), 100*leastMass)
	}
	return &l, nil
}

// open is the lower bound as the exclusive one that cdf and partial expect.
func (l *Law) open() float64 {
	if l.nearest != nil {
		return math.Ceil(l.min) - 1
	}
	return l.min
}

// bounds writes both bounds.
func (l *Law) bounds(separator string) string {
	if math.IsInf(l.max, 1) {
		return l.quantity.format(int64(l.min)) + separator + "infinity"
	}
	return l.quantity.format(int64(l.min)) + separator + l.quantity.format(int64(l.max))
}

// String is the law as Parse reads it, with the bounds in force.
func (l *Law) String() string {
	args := l.args
	if l.min > 0 {
		args = append(args[:len(args):len(args)], "min="+l.quantity.format(int64(l.min)))
	}
	if !math.IsInf(l.max, 1) {
		args = append(args[:len(args):len(args)], "max="+l.quantity.format(int64(l.max)))
	}
	return l.name + "(" + strings.Join(args, ",") + ")"
}

// Quantity says what the values measure.
func (l *Law) Quantity() Quantity { return l.quantity }

// Discrete reports whether only separate values are possible.
func (l *Law) Discrete() bool { return l.nearest != nil }

// Mean is the mean of the truncated law; +Inf where the integral diverges.
func (l *Law) Mean() float64 { return l.partial(l.open(), l.max) / l.mass }

// CDF is the probability of a value of at most x under the truncated law.
func (l *Law) CDF(x float64) float64 {
	switch {
	case x < l.min:
		return 0
	case x >= l.max:
		return 1
	}
	return math.Min((l.cdf(x)-l.below)/l.mass, 1)
}

// quantile is the least whole value whose CDF is at least p < 1.
func (l *Law) quantile(p float64) float64 {
	above := 1.0
	for l.CDF(above) < p {
		above *= 2
	}
	under := -1.0
	if above > 1 {
		under = above / 2
	}
	for {
		middle := math.Floor((under + above) / 2)
		switch {
		case middle == under || middle == above: // neighbours, also of large floats
			return above
		case l.CDF(middle) < p:
			under = middle
		default:
			above = middle
		}
	}
}

// Rounded is the law of values rounded to whole nanoseconds or bytes.
func (l *Law) Rounded() *Law {
	if l.Discrete() {
		return l
	}
	rounded := *l
	rounded.base = base{
		cdf:     func(x float64) float64 { return l.CDF(math.Floor(x) + 0.5) },
		partial: func(a, b float64) float64 { return l.Mean() },
		nearest: math.Round,
		start: func(source rand.Source) func() float64 {
			stream := l.Stream(source)
			return func() float64 { return math.Round(stream.Draw()) }
		},
	}
	rounded.min, rounded.max = math.Round(l.min), math.Round(l.max)
	rounded.below, rounded.mass = 0, 1
	return &rounded
}

// Stream draws independent values.
func (l *Law) Stream(source rand.Source) Stream {
	return &truncation{draw: l.start(source), min: l.min, max: l.max}
}

// truncation draws again until the value lies within the bounds.
type truncation struct {
	draw     func() float64
	min, max float64
}

func (t *truncation) Draw() float64 {
	for {
		if value := t.draw(); value >= t.min && value <= t.max {
			return value
		}
	}
}
