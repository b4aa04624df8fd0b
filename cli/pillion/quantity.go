package pillion

import (
	"fmt"
	"strings"

	"pillion.dev/internal/quantity"
)

// byteSize is a cell with a number of bytes.
func byteSize(n int64) cell { return cell{shown: quantity.FormatBytes(n), plain: fmt.Sprint(n)} }

// nanos is a cell with a time in nanoseconds.
func nanos(ns int64) cell { return cell{shown: quantity.FormatNanos(ns), plain: fmt.Sprint(ns)} }

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
