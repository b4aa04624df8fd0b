package routerreport

import (
	"math"
	"strconv"
	"time"

	"pillion.dev/internal/quantity"
)

// each formats a time, if there is any.
func each(count uint64, ns float64) string {
	return quantity.FormatMeasuredNanos(count > 0, int64(math.Round(ns)))
}

// span formats a time in nanoseconds.
func span(ns float64) string { return each(1, ns) }

// three formats a number with three digits, without an exponent where that is readable.
// Rounding errors of equal numbers become 0.
func three(value float64) string {
	switch size := math.Abs(value); {
	case size < 1e-9:
		return "0"
	case size < 1e-4:
		return strconv.FormatFloat(value, 'f', 6, 64)
	case size >= 1000:
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

func perSecond(n uint64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// lengthText formats a duration in seconds.
func lengthText(seconds float64) string {
	if seconds < 60 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
