package routerreport

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// span gives nanoseconds with a unit and three digits or more.
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

// each is a time where there is one.
func each(count uint64, ns float64) string {
	if count == 0 {
		return "-"
	}
	return span(ns)
}

// bits gives a rate with a unit.
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

// three gives three digits, without powers of ten where people can read them. What is
// left of equal numbers is 0.
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

// share is a part of a whole in percent; small ones are told apart from none.
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

// lengthText is a duration in seconds, for people.
func lengthText(seconds float64) string {
	if seconds < 60 {
		return strconv.FormatFloat(seconds, 'f', 1, 64) + " s"
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
