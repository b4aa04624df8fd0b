// Package chart draws charts as SVG for a self-contained report: without scripts, fonts or
// network access.
//
// It computes geometry; chart.svg is the markup. Colours are CSS classes that the page
// defines, so that the same chart works in light mode, in dark mode and in print.
package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Scale maps values to positions between Low and High.
type Scale struct {
	Min, Max  float64 // values
	Low, High float64 // positions
	Log       bool
}

// at is the position of a value; on a logarithmic scale values that are not positive are at
// the lower end.
func (s Scale) at(value float64) float64 {
	part := 0.0
	switch {
	case s.Log && value <= s.Min:
	case s.Log:
		part = math.Log(value/s.Min) / math.Log(s.Max/s.Min)
	case s.Max > s.Min:
		part = (value - s.Min) / (s.Max - s.Min)
	}
	return s.Low + min(max(part, 0), 1)*(s.High-s.Low)
}

// Nice is the smallest of 1, 2 and 5 times a power of ten that is not below the value.
func Nice(value float64) float64 {
	if value <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, step := range []float64{1, 2, 5} {
		if step*power >= value*(1-1e-9) {
			return step * power
		}
	}
	return 10 * power
}

// Ceiling rounds a value up to a multiple of a nice step of at most a quarter of it, so that
// an axis ends with a tick.
func Ceiling(value float64) float64 {
	step := Nice(value / 5)
	return step * math.Ceil(value/step*(1-1e-9))
}

// ticks are the labelled values of an axis, limited in number on a linear one.
func (s Scale) ticks(most int) []float64 {
	if s.Log {
		var ticks []float64
		decades := math.Log10(s.Max / s.Min)
		stride := max(int(math.Ceil(decades/float64(most))), 1)
		for e := int(math.Round(math.Log10(s.Min))); e <= int(math.Round(math.Log10(s.Max))); e += stride {
			ticks = append(ticks, math.Pow10(e))
		}
		return ticks
	}
	step := Nice((s.Max - s.Min) / float64(most))
	var ticks []float64
	for n := 0; s.Min+float64(n)*step <= s.Max*(1+1e-9); n++ {
		ticks = append(ticks, s.Min+float64(n)*step)
	}
	return ticks
}

// decades widens a logarithmic range to whole powers of ten.
func decades(low, high float64) (from, to float64) {
	from = math.Pow10(int(math.Floor(math.Log10(low) + 1e-9)))
	to = math.Pow10(int(math.Ceil(math.Log10(high) - 1e-9)))
	if to <= from {
		to = from * 10
	}
	return from, to
}

// Number formats a value for an axis.
func Number(value float64) string {
	size := math.Abs(value)
	switch {
	case size == 0:
		return "0"
	case size >= 1e6:
		return trim(value/1e6) + " M"
	case size >= 1e4:
		return trim(value/1e3) + " k"
	}
	return trim(value)
}

func trim(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }

// Power formats a power of ten for a logarithmic axis of fractions.
func Power(value float64) string {
	exponent := int(math.Round(math.Log10(value)))
	if exponent == 0 {
		return "1"
	}
	digits := strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴",
		"5", "⁵", "6", "⁶", "7", "⁷", "8", "⁸", "9", "⁹")
	return "10" + digits.Replace(strconv.Itoa(exponent))
}

// place formats a coordinate for the markup.
func place(value float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0")
}
