package model

import (
	"math"
	"math/rand/v2"
	"strings"
)

// OnOff draws the intervals of bursty traffic. On periods, in which packets follow one
// another by gaps, alternate with off periods without any, as D-ITG's -B. An on period
// lasts until the first packet at or after its drawn end, so that every interval is one
// whole gap or one whole off period and both keep the distribution asked for. The packet
// that ends an off period begins the next on period; a flow begins with an on period.
type OnOff struct {
	// On and Off are the lengths of the periods, Gap the interval within an on period.
	On, Off, Gap *Law
}

// onOff makes the distribution of intervals of the call's three parts.
func (p Parser) onOff(c call, q Quantity) (Distribution, error) {
	if q != Time {
		return nil, wrongUnit{faultf("is one of intervals, not of sizes")}
	}
	const usage = "onoff(on=DISTRIBUTION,off=DISTRIBUTION,gap=DISTRIBUTION)"
	if err := c.check(usage, 0, []string{"on", "off", "gap"}); err != nil {
		return nil, err
	}
	var o OnOff
	for _, part := range []struct {
		name string
		law  **Law
	}{{"on", &o.On}, {"off", &o.Off}, {"gap", &o.Gap}} {
		text, given := c.options[part.name]
		if !given {
			return nil, faultf("%s= is missing; want %s", part.name, usage)
		}
		inner, err := parseCall(text)
		if err != nil {
			return nil, faultf("%s: %w", part.name, err)
		}
		if inner.name == "onoff" {
			return nil, faultf("%s: onoff cannot be nested", part.name)
		}
		if *part.law, err = p.law(inner, q); err != nil {
			return nil, faultf("%s: %s: %w", part.name, inner.name, err)
		}
	}
	if o.Gap.Mean() == 0 {
		return nil, faultf("gap: must not always be 0: an on period would never end")
	}
	return &o, nil
}

// String is the distribution as Parse reads it.
func (o *OnOff) String() string {
	return "onoff(" + strings.Join([]string{"on=" + o.On.String(), "off=" + o.Off.String(), "gap=" + o.Gap.String()}, ",") + ")"
}

// Quantity is always Time.
func (o *OnOff) Quantity() Quantity { return Time }

// meanDraws is the number of draws that OnOff.Mean averages.
const meanDraws = 200_000

// Mean is the average of 200,000 intervals of a fixed seed: the number of packets in an on
// period has no closed form. It is +Inf where the mean of a gap or an off period is.
func (o *OnOff) Mean() float64 {
	if math.IsInf(o.Gap.Mean(), 1) || math.IsInf(o.Off.Mean(), 1) {
		return math.Inf(1)
	}
	stream, sum := o.Stream(Source(1, 0, 0)), 0.0
	for range meanDraws {
		sum += stream.Draw()
	}
	return sum / meanDraws
}

// Stream draws intervals; it is a *Bursts.
func (o *OnOff) Stream(source rand.Source) Stream { return o.bursts(source) }

func (o *OnOff) bursts(source rand.Source) *Bursts {
	b := &Bursts{on: o.On.Stream(source), off: o.Off.Stream(source), gap: o.Gap.Stream(source)}
	b.length = b.on.Draw()
	return b
}

// Bursts is the stream of an OnOff.
type Bursts struct {
	on, off, gap Stream
	// length of the current on period, and how much of it has passed.
	length, passed float64
	number         int
	paused         bool
}

// Draw returns the interval before the next packet: a gap, or an off period once the on
// period is over.
func (b *Bursts) Draw() float64 {
	if b.paused = b.passed >= b.length; b.paused {
		b.number++
		b.length, b.passed = b.on.Draw(), 0
		return b.off.Draw()
	}
	gap := b.gap.Draw()
	b.passed += gap
	return gap
}

// Paused reports whether the interval drawn last is an off period.
func (b *Bursts) Paused() bool { return b.paused }

// Number of the current on period, from 0.
func (b *Bursts) Number() int { return b.number }

// Length is the drawn length of the current on period in ns.
func (b *Bursts) Length() float64 { return b.length }
