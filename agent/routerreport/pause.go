package routerreport

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"pillion.dev/probe/router"
)

// BreakReport summarises coffee breaks.
type BreakReport struct {
	Count     uint64            `json:"count"`
	TotalNs   uint64            `json:"total_ns"`
	LongestNs uint64            `json:"longest_ns"`
	Unsent    uint64            `json:"unsent"`
	Causes    map[string]uint64 `json:"causes"`
	Length    Times             `json:"length_ns"`
	// Between is the median number of packets processed between two breaks.
	Between uint64 `json:"p50_packets_between"`
	// Longest are the longest breaks in descending order.
	Longest []router.Break `json:"longest,omitempty"`
	between []uint64
}

func newBreakReport(b router.Breaks) BreakReport {
	causes := b.Causes
	if causes == nil {
		causes = map[string]uint64{}
	}
	return BreakReport{
		Count: b.Count, TotalNs: b.TotalNs, LongestNs: b.LongNs, Unsent: b.Unsent, Causes: causes,
		Length: newTimes(b.Lengths), Between: medianOf(b.Between), between: b.Between,
	}
}

// medianOf returns the median of values 0, 1, 2 and so on, given how often each occurred.
func medianOf(counts []uint64) uint64 {
	var all, below uint64
	for _, n := range counts {
		all += n
	}
	for i, n := range counts {
		if below += n; 2*below >= all && all > 0 {
			return uint64(i)
		}
	}
	return 0
}

// longestBreaks is how many single breaks are kept.
const longestBreaks = 20

// breakList keeps the longest coffee breaks.
type breakList struct {
	all   []router.Break
	stop  context.CancelFunc
	ended chan error
}

// follow collects until finish is called.
func (l *breakList) follow(probe *router.Router) {
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.ended = stop, make(chan error, 1)
	go func() { l.ended <- probe.Breaks(ctx, l.add) }()
}

func (l *breakList) add(b router.Break) error {
	at, _ := slices.BinarySearchFunc(l.all, b, func(a, b router.Break) int { return cmp.Compare(b.LastNs, a.LastNs) })
	if at < longestBreaks {
		l.all = slices.Insert(l.all, at, b)
		l.all = l.all[:min(len(l.all), longestBreaks)]
	}
	return nil
}

// finish is the list, once nobody adds to it.
func (l *breakList) finish() ([]router.Break, error) {
	if l.stop == nil {
		return nil, errors.New("read breaks: they were not followed")
	}
	l.stop()
	return l.all, <-l.ended
}
