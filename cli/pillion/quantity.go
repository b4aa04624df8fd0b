package pillion

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// quantity is a count or a number of bytes, such as 10M or 2GiB.
type quantity int64

// Decode reads a quantity.
func (q *quantity) Decode(ctx *kong.DecodeContext) error {
	text, err := popText(ctx)
	if err != nil {
		return err
	}
	n, err := parseQuantity(text)
	*q = quantity(n)
	return err
}

var quantityUnits = map[string]float64{
	"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

func parseQuantity(text string) (int64, error) {
	end := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		end = len(text)
	}
	unit, known := quantityUnits[strings.ToLower(strings.TrimSpace(text[end:]))]
	value, err := strconv.ParseFloat(text[:end], 64)
	if err != nil || !known || value*unit > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a number such as 5000, 10M or 2GiB", text)
	}
	return int64(value * unit), nil
}

// byteSize is a cell with a number of bytes.
func byteSize(n int64) cell { return cell{bytesText(n), fmt.Sprint(n)} }

func bytesText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= 1023.5 && unit < len("KMGTPE") {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%s %ciB", figures(value), "KMGTPE"[unit-1])
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

// delayText writes nanoseconds with their unit, in three figures.
func delayText(ns int64) string {
	v := float64(ns)
	switch size := math.Abs(v); {
	case size < 999.5:
		return fmt.Sprintf("%d ns", ns)
	case size < 999.5e3:
		return figures(v/1e3) + " µs"
	case size < 999.5e6:
		return figures(v/1e6) + " ms"
	}
	return figures(v/1e9) + " s"
}

// nanos is a cell with a time in nanoseconds.
func nanos(ns int64) cell { return cell{delayText(ns), fmt.Sprint(ns)} }

// parsePairs reads words of the form key=value; a key must not come twice.
func parsePairs(words []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || key == "" || strings.ContainsAny(key, " \t\n") {
			return nil, fmt.Errorf("%w: %q is not KEY=VALUE", errValue, word)
		}
		if _, twice := pairs[key]; twice {
			return nil, fmt.Errorf("%w: %q is given twice", errValue, key)
		}
		pairs[key] = value
	}
	return pairs, nil
}
