package archivetest

import (
	"maps"
	"slices"
	"testing"

	"pillion.dev/archive"
)

// Fill stores the rows of Compare, and rows of six days of flows to two more agents.
func Fill(t *testing.T, a archive.Archive) {
	b := &bed{T: t, Archive: a}
	b.storeMany()
	b.storeSpread("d")
	b.storeSpread("e")
}

// CompareCopy compares the answers of two archives, of which one has the rows of Fill and the
// other is a copy of it. Of the questions that add up rows, which take long, it asks a third.
func CompareCopy(t *testing.T, one, other archive.Archive) {
	all, sums := questions(), sumQuestions(spread)
	for i, name := range slices.Sorted(maps.Keys(sums)) {
		if delete(all, name); i%3 == 0 {
			all[name] = sums[name]
		}
	}
	compare(t, []*bed{{T: t, Archive: one}, {T: t, Archive: other}}, all)
}
