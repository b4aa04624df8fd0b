//go:build verify

package router

import (
	"testing"

	"pillion.dev/internal/test/figure"
)

// TestVerifyTruth: on a machine that does nothing else, what the profile says of each stage
// is the truth to within the bar.
func TestVerifyTruth(t *testing.T) {
	for name, truth := range truths {
		t.Run(name, func(t *testing.T) {
			all := truth(t)
			tell(t, all)
			for _, c := range all {
				if c.most > 0 {
					figure.AtMost(t, "router, "+name+", "+c.what+", median error", c.median()/1e3, float64(c.most)/1e3, "µs")
				}
			}
		})
	}
}
