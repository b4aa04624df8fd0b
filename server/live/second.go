package live

import (
	"math"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/histogram"
)

// figure is what one session has of one pair of hosts in one second.
type figure struct {
	key                     uint32
	packets, expected, lost uint32
	p50, p99, clock         float32
	rate                    float32 // bits a second
	version                 uint32  // in which it was last published; 0: not yet
	pending                 bool    // has changed since
	best                    bool    // of the sessions of its pair
}

// second is what all pairs have in one second.
type second struct {
	start   int64 // s since 1970
	begun   time.Time
	figures []figure
	place   []int32 // of the figure of a key, plus one
	// open are the histograms of figures as long as more rows are likely.
	open map[uint32]*spread
	// version is the highest of the figures.
	version uint32
	pending []int32
	// first and latest are when the pending changes came.
	first, latest time.Time
}

// spread is what quantiles of several rows need.
type spread struct {
	buckets  histogram.Histogram
	delay    archive.Distribution
	weighing weighing
	own      int
}

// find is the figure of a key, or nil.
func (s *second) find(key uint32) *figure {
	if int(key) >= len(s.place) || s.place[key] == 0 {
		return nil
	}
	return &s.figures[s.place[key]-1]
}

// take is the figure of a key, which is made if there is none.
func (s *second) take(key uint32, keys int) *figure {
	if found := s.find(key); found != nil {
		return found
	}
	if int(key) >= len(s.place) {
		s.place = append(s.place, make([]int32, max(int(key)+1, keys)-len(s.place))...)
	}
	none := float32(math.NaN())
	s.figures = append(s.figures, figure{key: key, p50: none, p99: none, clock: none})
	s.place[key] = int32(len(s.figures))
	return &s.figures[len(s.figures)-1]
}

// add takes a row into a figure.
func (s *second) add(f *figure, r *rows, i int, interval time.Duration) {
	packets, _ := r.packets(i)
	bytes, _ := r.bytes(i)
	expected, _ := r.expected(i)
	lost, _ := r.lost(i)
	f.packets, f.expected, f.lost = saturated(f.packets, packets), saturated(f.expected, expected), saturated(f.lost, lost)
	f.rate += float32(float64(bytes) * 8 / max(interval, time.Second).Seconds())
	f.clock = float32(larger(float64(f.clock), r.clock(i)))
	if s.open == nil { // quantiles stay as they are
		if p50, ok := r.delay.p50(i); ok && math.IsNaN(float64(f.p50)) {
			f.p50, f.p99 = float32(p50), float32(optional(r.delay.p99(i)))
		}
		return
	}
	one := s.open[f.key]
	if one == nil {
		one = &spread{delay: archive.NoDistribution(), weighing: weighing{heaviest: -1}}
		s.open[f.key] = one
	}
	if one.weighing.add(&one.delay, &r.delay, i, packets) {
		one.own++
	}
	r.buckets(i, one.buckets.AddBucket)
	p50, p99 := one.delay.P50, one.delay.P99
	if one.own > 1 && !one.buckets.Empty() {
		d := one.delay
		d.Spread(&one.buckets)
		p50, p99 = d.P50, d.P99
	}
	f.p50, f.p99 = float32(p50), float32(p99)
}

func saturated(a uint32, b uint64) uint32 {
	return uint32(min(uint64(a)+min(b, math.MaxUint32), math.MaxUint32))
}

// mark notes that a figure has changed.
func (s *second) mark(f *figure, now time.Time) {
	if len(s.pending) == 0 {
		s.first = now
	}
	s.latest = now
	if !f.pending {
		f.pending = true
		s.pending = append(s.pending, s.place[f.key]-1)
	}
}

// What has come is shown once nothing more came for quietTime, or waitTime after the
// first of it.
const (
	quietTime = 200 * time.Millisecond
	waitTime  = 600 * time.Millisecond
	// openTime is for how long histograms wait for more rows.
	openTime = 5 * time.Second
)

// due reports whether the second is over and its rows have come, as it seems. Of a
// host whose clock is ahead they come before the second is over here.
func (s *second) due(now time.Time) bool {
	if len(s.pending) == 0 || now.Sub(s.latest) < quietTime && now.Sub(s.first) < waitTime {
		return false
	}
	return now.Unix() > s.start || now.Unix() < s.start-1
}

// publish makes what is pending part of a version.
func (s *second) publish(version uint32) {
	for _, place := range s.pending {
		s.figures[place].pending, s.figures[place].version = false, version
	}
	s.pending, s.version = s.pending[:0], version
}
