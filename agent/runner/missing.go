package runner

import (
	"slices"
	"time"
)

const (
	// missingWindow is how long packets are counted before the counts are compared.
	missingWindow = time.Second
	// missingLeast is how many marked packets a window must have had if none in the next is
	// to count, since slower flows pause by themselves; and how many must be lost.
	missingLeast = 8
	// missingPart is the fraction of a window's packets that must be lost: 1/4.
	missingPart = 4
)

// missing notices peers whose marked packets cease to arrive, all or many of them. Most such
// peers have stopped sending, or packets are lost with and without a mark; but if the path has
// begun to drop marked packets, or large ones, their source learns it from this sooner than
// from the next regular test of the path.
type missing struct {
	began     time.Duration // of the current window, by the monotonic clock
	now, last map[string]arrivals
	// found are the peers that were noticed in the last two windows, so that each is part
	// of at least one report.
	found [2][]string
}

// arrivals are the marked packets of a peer in one window.
type arrivals struct{ packets, lost uint64 }

func (m *missing) add(peer string, packets, lost uint64) {
	if m.now == nil {
		m.now = map[string]arrivals{}
	}
	sum := m.now[peer]
	m.now[peer] = arrivals{sum.packets + packets, sum.lost + lost}
}

// advance ends the window if it has lasted long enough.
func (m *missing) advance(now time.Duration) {
	if now-m.began < missingWindow {
		return
	}
	var found []string
	for peer, before := range m.last {
		after := m.now[peer]
		ceased := before.packets >= missingLeast && after.packets == 0
		lossy := after.lost >= missingLeast && after.lost*missingPart >= after.packets+after.lost
		if ceased || lossy {
			found = append(found, peer)
		}
	}
	slices.Sort(found)
	m.found = [2][]string{found, m.found[0]}
	m.began, m.last, m.now = now, m.now, nil
}

func (m *missing) peers() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.found[0], m.found[1]))))
}
