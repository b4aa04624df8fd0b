// Package quantity reads and writes durations and sizes as people write them, with one
// grammar for command lines, YAML files and the web page (whose tests read the vectors
// in testdata). It knows nothing of what a figure means or which values are allowed.
//
// A duration is a sequence of numbers with units, such as 500ms, 1h30m or 7d: ns, us
// (µs), ms, s, m, h, d (24 hours) and w (7 days), with an optional sign. A size is a
// number with an optional unit, such as 5000, 10M, 64MiB or 1.5GB: k, M, G and T are
// powers of 1000, Ki, Mi, Gi and Ti powers of 1024, with or without B, in either case.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/xhit/go-str2duration/v2"
)

// Duration is a time.Duration that reads and writes itself as text.
type Duration time.Duration

// ParseDuration reads a duration. Spaces do not matter; a number needs a unit, unless
// it is 0.
func ParseDuration(text string) (time.Duration, error) {
	d, err := str2duration.ParseDuration(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 1h30m or 7d", text)
	}
	return d, nil
}

// FormatDuration writes what ParseDuration reads, without units that are zero: 1d12h.
func FormatDuration(d time.Duration) string {
	if d < 0 && d != math.MinInt64 {
		return "-" + FormatDuration(-d)
	}
	var text strings.Builder
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&text, "%d%s", n, unit.name)
			d %= unit.size
		}
	}
	if d != 0 || text.Len() == 0 {
		text.WriteString(strings.Replace(d.String(), "µ", "u", 1))
	}
	return text.String()
}

// String is the duration as FormatDuration writes it.
func (d Duration) String() string { return FormatDuration(time.Duration(d)) }

// MarshalText writes the duration as FormatDuration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a duration as ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}

// Size is a number of bytes, or a count, that reads itself from text.
type Size int64

// ParseSize reads a size, which is not negative and fits in 63 bits. Only a size with a
// unit may have a fraction.
func ParseSize(text string) (int64, error) {
	text = strings.TrimSpace(text)
	n, err := humanize.ParseBytes(text)
	whole := strings.Trim(text, "0123456789.") != "" || !strings.Contains(text, ".")
	vanished := n == 0 && strings.ContainsAny(text, "123456789")
	if err != nil || n > math.MaxInt64 || !whole || vanished || strings.Contains(text, ",") {
		return 0, fmt.Errorf("%q is not a size such as 5000, 10M or 64MiB", text)
	}
	return int64(n), nil
}

// UnmarshalText reads a size as ParseSize does.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseSize(string(text))
	if err == nil {
		*s = Size(n)
	}
	return err
}

// FormatBytes writes a number of bytes with three significant figures: 1.50 MiB.
func FormatBytes(n int64) string {
	return scale(float64(n), 1024, "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
}

// Count writes a number of things: 1 hop, 2 hops, 2 batches.
func Count[N int | int64 | uint64](n N, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"), strings.HasSuffix(thing, "ss"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// FormatRate writes a rate in bit/s exactly, with a decimal unit: 10 Mbit/s, 1.5 kbit/s.
func FormatRate(bitsPerSecond int64) string {
	size, unit := 1.0, "bit/s"
	for _, u := range []string{"kbit/s", "Mbit/s", "Gbit/s"} {
		if math.Abs(float64(bitsPerSecond)) >= 1000*size {
			size, unit = 1000*size, u
		}
	}
	return strconv.FormatFloat(float64(bitsPerSecond)/size, 'f', -1, 64) + " " + unit
}

// FormatMeasuredRate writes a rate in bit/s with three significant figures: 12.3 Mbit/s.
func FormatMeasuredRate(bitsPerSecond float64) string {
	return scale(bitsPerSecond, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s")
}

// FormatNanos writes a time in nanoseconds with three significant figures: 5.12 ms.
func FormatNanos(ns int64) string {
	v := float64(ns)
	for _, unit := range []struct {
		name        string
		size, limit float64
	}{
		{"µs", 1e3, 999.5e3}, {"ms", 1e6, 999.5e6}, {"s", 1e9, 120e9}, {"min", 60e9, 7200e9}, {"h", 3600e9, 172800e9}, {"d", 86400e9, math.Inf(1)},
	} {
		switch size := math.Abs(v); {
		case size < 999.5:
			return fmt.Sprintf("%d ns", ns)
		case size < unit.limit:
			return figures(v/unit.size) + " " + unit.name
		}
	}
	return ""
}

// scale divides by step until the largest unit that leaves a number below step.
func scale(v, step float64, units ...string) string {
	unit := 0
	for ; math.Abs(v) >= step*0.9995 && unit < len(units)-1; unit++ {
		v /= step
	}
	if unit == 0 {
		return strconv.FormatFloat(v, 'f', -1, 64) + " " + units[0]
	}
	return figures(v) + " " + units[unit]
}

// figures writes three significant ones.
func figures(v float64) string {
	switch size := math.Abs(v); {
	case size >= 99.95 || size == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
