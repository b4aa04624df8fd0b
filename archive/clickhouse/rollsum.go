package clickhouse

import (
	"maps"
	"slices"

	"pillion.dev/archive/query"
	"pillion.dev/measure/flows"
)

// rollKey tells sums apart: the keys of summands in their order.
type rollKey struct {
	texts   [6]string
	numbers [4]int64
}

// timeNumber is the place of time among the numbers.
const timeNumber = 3

func (k *rollKey) compare(other *rollKey) int {
	if c := slices.Compare(k.texts[:], other.texts[:]); c != 0 {
		return c
	}
	return slices.Compare(k.numbers[:], other.numbers[:])
}

// rollSum is what the rows of a key add up to. A merge is what the SQL of summands is for
// rows that are in no roll-up.
type rollSum struct {
	key          rollKey
	begun, ended int64
	rows         uint64
	// Sum has no histograms: one of its loses all offsets when one is unknown.
	flows.Sum
	// counted are the counts that a row had; the others are null.
	counted    [len(flows.CountNames)]bool
	histograms [len(query.Distributions)]buckets
}

// distributions are in the order of their names.
func (s *rollSum) distributions() [len(query.Distributions)]*flows.Distribution {
	return [...]*flows.Distribution{&s.Delay, &s.IPDV}
}

// merge adds other, which it does not keep.
func (s *rollSum) merge(other *rollSum) {
	s.begun, s.ended, s.rows = min(s.begun, other.begun), max(s.ended, other.ended), s.rows+other.rows
	s.Sum.Merge(&other.Sum)
	for i := range s.counted {
		s.counted[i] = s.counted[i] || other.counted[i]
	}
	for i := range s.histograms {
		s.histograms[i].merge(other.histograms[i])
	}
}

// rollSums are sums by key.
type rollSums map[rollKey]*rollSum

// add adds a row, which it does not keep.
func (s rollSums) add(row *rollSum) {
	sum := s[row.key]
	if sum == nil {
		sum = &rollSum{key: row.key, begun: row.begun, ended: row.ended}
		s[row.key] = sum
	}
	sum.merge(row)
}

// sorted are the sums in the order of their keys.
func (s rollSums) sorted() []*rollSum {
	return slices.SortedFunc(maps.Values(s), func(a, b *rollSum) int { return a.key.compare(&b.key) })
}

// bucket of a histogram: the number of values, the sum of their offsets, and the number of rows without offsets.
type bucket struct {
	bound                   int64
	count, offsets, unknown uint64
}

// buckets of a sum have ascending bounds; buckets that were read from a row may be in any order.
type buckets []bucket

// merge adds the buckets of a row.
func (b *buckets) merge(row buckets) {
	from := 0
	if *b == nil {
		*b = make(buckets, 0, 2*len(row))
	}
	for _, one := range row {
		one.count = min(one.count, flows.CountMax)
		if one.offsets > offsetMost {
			one.offsets, one.unknown = 0, 1
		}
		if one.count == 0 && one.offsets == 0 && one.unknown == 0 {
			continue
		}
		if from > 0 && one.bound <= (*b)[from-1].bound {
			from = 0
		}
		if from = b.search(from, one.bound); from == len(*b) || (*b)[from].bound != one.bound {
			*b = slices.Insert(*b, from, bucket{bound: one.bound})
		}
		to := &(*b)[from]
		to.count, to.offsets, to.unknown = to.count+one.count, to.offsets+one.offsets, to.unknown+one.unknown
		from++
	}
}

// search finds the place of a bound from a place on. slices.BinarySearchFunc takes three times as
// long.
func (b *buckets) search(from int, bound int64) int {
	low, high := from, len(*b)
	for low < high {
		if middle := (low + high) / 2; (*b)[middle].bound < bound {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}
