// Package model draws the traffic of a flow from random distributions: the time between
// two packets (the interval, or inter-departure time) and the size of each. It also tests
// whether values that were drawn, or really sent, are consistent with the distribution
// asked for. It sends nothing and reads no clock.
//
// # Distributions
//
// A distribution is written as a call; its values are times or sizes:
//
//	constant(value)              every value the same
//	uniform(low,high)            continuous, low < high
//	exponential(mean)            as interval: a Poisson stream of packets (RFC 2330, 11.1.1)
//	normal(mean,sd)
//	poisson(mean)                counts of bytes; as interval counts of unit=1ms
//	pareto(shape,scale)          type I: no value below the scale; no mean for shape <= 1
//	cauchy(location,scale)       no mean
//	gamma(shape,scale)           mean shape*scale
//	weibull(shape,scale)
//	file(path)                   the values of a file, drawn with replacement, or in
//	                             order and then from the start: file(path,order=sequential)
//	onoff(on=D,off=D,gap=D)      intervals only: see OnOff
//
// A time takes the units ns, us, ms, s, m, h, d; a size is a number of bytes, with a unit
// such as B, kB or KiB if wanted; a shape has no unit. Each line of a file is one value;
// a time without a unit is in milliseconds, as in the files of D-ITG; empty lines and
// lines that begin with # are skipped. A path with a comma, space, equals sign, quotation
// mark or parenthesis is written as a quoted Go string.
//
// # Truncation
//
// Every distribution but onoff takes min= and max=, both inclusive. No time and no size is
// negative: min is 0 unless a larger one is given. A draw outside is rejected and drawn
// again, so the law is the conditional one within the bounds, and that is the law whose
// mean and CDF are returned and which is tested: normal(1ms,1ms) has a mean of 1.288 ms,
// not 1 ms. Bounds that hold less than 1 % of the distribution are refused.
//
// # Differences from D-ITG
//
// The names and the order of the parameters follow D-ITG 2.8.1 (manual, 3.2.3). The
// differences:
//
//   - Constant, uniform and exponential intervals are given as times; D-ITG takes rates in
//     packets per second and converts them (x to 1000/x ms). uniform(1ms,2ms) is its
//     -U 500 1000.
//   - A Poisson interval is a Poisson number of time units. D-ITG's -O draws a Poisson
//     number of packets per second and waits for its reciprocal, which is infinite at 0.
//   - D-ITG calls the location of the Cauchy distribution a shape.
//   - D-ITG keeps negative intervals and cuts sizes to the allowed range, which piles up
//     probability at its ends; here they are drawn again. A size is rounded to the
//     nearest byte, where D-ITG drops the fraction.
//   - The first packet of a flow follows the first interval (RFC 2330); D-ITG sends it
//     at once.
//   - onoff: the packet after an off period follows it immediately; D-ITG adds one interval.
//
// # Reproducibility
//
// The same model text with the same seed draws the same packets on every machine and at
// every run: math/rand/v2's PCG, seeded from the seed, the number of the flow and the
// variable (interval or size), is fixed by definition. Flows are statistically independent.
// The exponential and the logarithm can differ in the last bit between processor
// architectures, which the rounding to whole nanoseconds and bytes almost always hides.
package model

import (
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"pillion.dev/internal/quantity"
)

// Quantity is what the values of a distribution measure.
type Quantity int

const (
	// Time values are nanoseconds.
	Time Quantity = iota + 1
	// Size values are bytes.
	Size
)

// String is the word for the quantity in messages.
func (q Quantity) String() string {
	switch q {
	case Time:
		return "time"
	case Size:
		return "size"
	}
	return "quantity " + strconv.Itoa(int(q))
}

// parse reads a value that is not negative, in nanoseconds or bytes.
func (q Quantity) parse(text string) (int64, error) {
	if q == Size {
		return quantity.ParseSize(text)
	}
	d, err := quantity.ParseDuration(text)
	if err == nil && d < 0 {
		err = errNegative
	}
	return int64(d), err
}

// format writes what parse reads.
func (q Quantity) format(value int64) string {
	if q == Size {
		return strconv.FormatInt(value, 10) + "B"
	}
	return quantity.FormatDuration(time.Duration(value))
}

// Distribution says how the values of one variable are drawn: *Law or *OnOff. It does not
// change after it was parsed, and any number of streams can be drawn from it at once.
type Distribution interface {
	// String is the distribution as Parse reads it.
	String() string
	// Quantity says what the values measure.
	Quantity() Quantity
	// Mean is the mean of the values in ns or bytes, with truncation; +Inf if there is none.
	Mean() float64
	// Stream draws from the source; a source must not be shared between goroutines.
	Stream(source rand.Source) Stream
}

// Stream is a sequence of values of one distribution.
type Stream interface {
	// Draw returns the next value, in ns or bytes, not rounded. It does not allocate.
	Draw() float64
}

// Source returns the random numbers of one variable of one flow. Sources that differ in
// any of the three numbers are independent.
func Source(seed, flow, variable uint64) rand.Source {
	var key [32]byte
	for i, n := range []uint64{seed, flow, variable} {
		for b := range 8 {
			key[8*i+b] = byte(n >> (8 * b))
		}
	}
	derive := rand.NewChaCha8(key)
	return rand.NewPCG(derive.Uint64(), derive.Uint64())
}

// whole rounds a value to whole nanoseconds or bytes; what does not fit becomes the
// largest int64.
func whole(value float64) int64 {
	if value >= math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(math.Round(value))
}
