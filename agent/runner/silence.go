package runner

import (
	"slices"
	"time"
)

const (
	// silenceWindow is the least time without marked packets of a peer that counts as silence.
	silenceWindow = time.Second
	// silenceBusy is how many marked packets the window before must have had: a flow that
	// sends fewer pauses by itself.
	silenceBusy = 8
)

// silence notices peers whose marked packets cease to arrive. Most of them have stopped
// sending; but if the path has begun to drop marked packets, their source learns it from
// this sooner than from the next regular test of the path.
type silence struct {
	began         time.Duration     // of the current window, by the monotonic clock
	packets, last map[string]uint64 // of this window and the one before, by peer
	// found are the peers that became silent in the last two windows, so that each is part
	// of at least one report.
	found [2][]string
}

func (s *silence) add(peer string, packets uint64) {
	if s.packets == nil {
		s.packets = map[string]uint64{}
	}
	s.packets[peer] += packets
}

// advance ends the window if it has lasted long enough.
func (s *silence) advance(now time.Duration) {
	if now-s.began < silenceWindow {
		return
	}
	var silent []string
	for peer, packets := range s.last {
		if packets >= silenceBusy && s.packets[peer] == 0 {
			silent = append(silent, peer)
		}
	}
	slices.Sort(silent)
	s.found = [2][]string{silent, s.found[0]}
	s.began, s.last, s.packets = now, s.packets, nil
}

func (s *silence) peers() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.found[0], s.found[1]))))
}
