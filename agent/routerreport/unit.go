package routerreport

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// span formats nanoseconds with a unit and at least three digits.
func span(ns float64) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%.0f ns", ns)
	case ns < 1e5:
		return fmt.Sprintf("%.2f us", ns/1e3)
	case ns < 1e6:
		return fmt.Sprintf("%.1f us", ns/1e3)
	case ns < 1e9:
		return fmt.Sprintf("%.3f ms", ns/1e6)
	}
	return fmt.Sprintf("%.3f s", ns/1e9)
}

// each formats a time, if there is any.
func each(count uint64, ns float64) string {
	if count == 0 {
		return "-"
	}
	return span(ns)
}

// bits formats a bit rate with a unit.
func bits(bytes uint64, seconds float64) string {
	if seconds <= 0 {
		return "-"
	}
	rate := float64(bytes) * 8 / seconds
	for _, unit := range []string{"bit/s", "kbit/s", "Mbit/s"} {
		if rate < 1000 {
			return fmt.Sprintf("%.3g %s", rate, unit)
		}
		rate /= 1000
	}
	return fmt.Sprintf("%.2f Gbit/s", rate)
}

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

// share formats a part of a whole in percent; a small one differs from none.
func share(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case part == 0:
		return "0 %"
	case part == whole:
		return "100 %"
	case p < .001:
		return "< 0.001 %"
	case p < 1:
		return fmt.Sprintf("%.3f %%", p)
	case p > 99.9:
		return fmt.Sprintf("%.3f %%", min(p, 99.999))
	}
	return fmt.Sprintf("%.1f %%", p)
}

// lengthText formats a duration in seconds.
func lengthText(seconds float64) string {
	if seconds < 60 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
