package routerreport

import (
	"cmp"
	"slices"

	"pillion.dev/internal/quantity"
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

// MarshalJSON writes null for what no break has.
func (b BreakReport) MarshalJSON() ([]byte, error) {
	type figures BreakReport
	return quantity.MarshalMeasured(b.Count > 0, figures(b), "longest_ns", "p50_packets_between")
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

// longest are the longest coffee breaks in descending order.
type longest []router.Break

func (l *longest) add(b router.Break) error {
	at, _ := slices.BinarySearchFunc(*l, b, func(a, b router.Break) int { return cmp.Compare(b.LastNs, a.LastNs) })
	if at < longestBreaks {
		*l = slices.Insert(*l, at, b)
		*l = (*l)[:min(len(*l), longestBreaks)]
	}
	return nil
}
