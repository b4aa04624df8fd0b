package runner

import (
	"slices"
	"testing"
	"time"
)

// TestMissing: what the packets of windows of a second say about a peer.
func TestMissing(t *testing.T) {
	for _, row := range []struct {
		name    string
		windows []arrivals
		missing bool
	}{
		{"nothing", []arrivals{{}, {}}, false},
		{"steady", []arrivals{{20, 0}, {20, 0}, {20, 0}}, false},
		{"ceases", []arrivals{{20, 0}, {20, 0}, {}}, true},
		{"two windows later", []arrivals{{20, 0}, {}, {}}, true},
		{"three windows later", []arrivals{{20, 0}, {}, {}, {}}, false},
		{"too few to expect more", []arrivals{{7, 0}, {}}, false},
		{"less than before", []arrivals{{100, 0}, {1, 0}}, false},
		{"ceases slowly", []arrivals{{100, 0}, {1, 0}, {}}, false},
		{"many are lost", []arrivals{{100, 0}, {50, 50}}, true},
		{"few are lost", []arrivals{{100, 0}, {90, 10}}, false},
		{"many of few are lost", []arrivals{{4, 0}, {3, 3}}, false},
		{"only losses", []arrivals{{100, 0}, {0, 50}}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var m missing
			now := time.Hour
			for _, w := range row.windows {
				m.add("a", w.packets, w.lost)
				m.add("b", 20, 1)
				m.advance(now + missingWindow/2) // the window goes on
				now += missingWindow
				m.advance(now)
			}
			if got := slices.Contains(m.peers(), "a"); got != row.missing {
				t.Errorf("missing: %v", m.peers())
			}
			if slices.Contains(m.peers(), "b") {
				t.Error("packets of the other peer are missing")
			}
		})
	}
}
