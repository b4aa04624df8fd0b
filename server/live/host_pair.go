package live

import (
	"math"
	"slices"
)

// HostPair has the figures of a pair of hosts in the last minute.
type HostPair struct {
	Source, Destination     string
	Packets, Expected, Lost uint64
	// P50 and P99 are of the pair's latest second with delays, ns; WorstP99 is the highest P99 of a second. NaN:
	// none.
	P50, P99, WorstP99 float64
	latest             int64
}

// loss is the lost share, 0 if nothing was expected.
func (h *HostPair) loss() float64 {
	if h.Expected == 0 {
		return 0
	}
	return float64(h.Lost) / float64(h.Expected)
}

// Worse reports whether more of its packets were lost, or as many and its delays were higher.
func (h *HostPair) Worse(than *HostPair) bool {
	if a, b := h.loss(), than.loss(); a != b {
		return a > b
	}
	return h.WorstP99 > than.WorstP99 || than.WorstP99 != than.WorstP99 && h.WorstP99 == h.WorstP99
}

func newHostPair(k *key) HostPair {
	none := math.NaN()
	return HostPair{Source: k.name.source, Destination: k.name.destination, P50: none, P99: none, WorstP99: none}
}

// add adds the figure of a second.
func (h *HostPair) add(start int64, f *figure) {
	h.Packets += uint64(f.packets)
	h.Expected += uint64(f.expected)
	h.Lost += uint64(f.lost)
	if math.IsNaN(float64(f.p99)) {
		return
	}
	if math.IsNaN(h.P99) || start > h.latest {
		h.latest, h.P50, h.P99 = start, float64(f.p50), float64(f.p99)
	}
	if !(h.WorstP99 >= float64(f.p99)) {
		h.WorstP99 = float64(f.p99)
	}
}

// HostPairs returns the figures of the pairs of hosts in the last minute, in order.
func (p *Pairs) HostPairs(scope Scope) []HostPair {
	var pairs []HostPair
	for pair := range p.hostPairs(scope) {
		pairs = append(pairs, *pair)
	}
	slices.SortFunc(pairs, func(a, b HostPair) int {
		return cmpTexts(a.Source, b.Source, a.Destination, b.Destination)
	})
	return pairs
}

// hostPairs yields them one by one, with their sites.
func (p *Pairs) hostPairs(scope Scope) func(yield func(*HostPair, siteEnds) bool) {
	return func(yield func(*HostPair, siteEnds) bool) {
		for _, s := range p.shards {
			pairs, ends := s.hostPairs(scope)
			for i := range pairs {
				if !yield(&pairs[i], ends[i]) {
					return
				}
			}
		}
	}
}

func (p *shard) hostPairs(scope Scope) (pairs []HostPair, ends []siteEnds) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	places := make([]int32, len(p.keys)) // plus one, by key
	for start, s := range p.seconds {
		for i := range s.figures {
			f := &s.figures[i]
			k := &p.keys[f.key]
			if f.version == 0 || !scope.has(k) || scope.Session == "" && !f.elected || scope.Session != "" && k.name.session != scope.Session {
				continue
			}
			if places[f.key] == 0 {
				pairs, ends = append(pairs, newHostPair(k)), append(ends, k.ends)
				for _, id := range p.pairs[[2]uint32{k.source, k.destination}] { // sessions count as one pair
					places[id] = int32(len(pairs))
				}
			}
			pairs[places[f.key]-1].add(start, f)
		}
	}
	return pairs, ends
}
