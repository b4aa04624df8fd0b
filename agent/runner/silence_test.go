package runner

import (
	"slices"
	"testing"
	"time"
)

// TestSilence: what the packets of windows of a second say about a peer.
func TestSilence(t *testing.T) {
	for _, row := range []struct {
		name    string
		packets []uint64
		silent  bool
	}{
		{"nothing", []uint64{0, 0}, false},
		{"steady", []uint64{20, 20, 20}, false},
		{"ceases", []uint64{20, 20, 0}, true},
		{"two windows later", []uint64{20, 0, 0}, true},
		{"three windows later", []uint64{20, 0, 0, 0}, false},
		{"too few to expect more", []uint64{7, 0}, false},
		{"less than before", []uint64{100, 1}, false},
		{"ceases slowly", []uint64{100, 1, 0}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s silence
			now := time.Hour
			for _, packets := range row.packets {
				s.add("a", packets)
				s.add("b", 20)
				s.advance(now + silenceWindow/2) // the window goes on
				now += silenceWindow
				s.advance(now)
			}
			if got := slices.Contains(s.peers(), "a"); got != row.silent {
				t.Errorf("silent: %v", s.peers())
			}
			if slices.Contains(s.peers(), "b") {
				t.Error("the other peer is silent")
			}
		})
	}
}
