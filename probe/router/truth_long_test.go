//go:build long

package router

import "testing"

// TestLongTruth: on a machine that does nothing else, what the profile says of each stage
// is the truth to within the bar.
func TestLongTruth(t *testing.T) {
	for name, truth := range truths {
		t.Run(name, func(t *testing.T) {
			all := truth(t)
			tell(t, all)
			for _, c := range all {
				if c.most > 0 && c.median() > float64(c.most) {
					t.Errorf("%s: median error above %v", c.what, c.most)
				}
			}
		})
	}
}
