package live

import (
	"math"
	"time"

	"pillion.dev/measure/flows"
)

// figure is what one session measured of one pair of hosts in one second.
type figure struct {
	key                     uint32
	packets, expected, lost uint32
	reordered, duplicated   uint32
	p50, p99, clock         float32
	rate                    float32 // bits a second
	version                 uint32  // in which it was last published; 0: not yet
	pending                 bool    // changed since
	elected                 bool    // its session counts for the pair
}

// second holds the figures of all pairs in one second.
type second struct {
	start   int64 // s since 1970
	begun   time.Time
	figures []figure
	place   []int32 // of the figure of a key, plus one
	// open has the sums of the figures as long as more rows are likely.
	open map[uint32]*flows.Sum
	// version is the highest of the figures.
	version uint32
	pending []int32
	// first and latest are the times of the pending changes.
	first, latest time.Time
}

// find returns the figure of a key, or nil.
func (s *second) find(key uint32) *figure {
	if int(key) >= len(s.place) || s.place[key] == 0 {
		return nil
	}
	return &s.figures[s.place[key]-1]
}

// take returns the figure of a key, created if there is none.
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

// add adds a row to a figure. Once the sum is dropped, delays no longer change.
func (s *second) add(f *figure, row *flows.Row) {
	f.packets, f.expected, f.lost = saturated(f.packets, row.Packets), saturated(f.expected, row.Expected), saturated(f.lost, row.Lost)
	f.reordered, f.duplicated = saturated(f.reordered, row.Reordered), saturated(f.duplicated, row.Duplicated)
	f.rate += float32(float64(row.Bytes) * 8 / max(row.Interval, time.Second).Seconds())
	sum := &row.Sum
	if s.open != nil {
		if sum = s.open[f.key]; sum == nil {
			sum = &flows.Sum{}
			s.open[f.key] = sum
		}
		sum.Merge(&row.Sum)
	} else if !math.IsNaN(float64(f.p50)) {
		return
	}
	f.p50, f.p99, f.clock = float32(sum.Delay.Quantile(0.5)), float32(sum.Delay.Quantile(0.99)), float32(sum.ClockError.Float())
}

func saturated(a uint32, b uint64) uint32 {
	return uint32(min(uint64(a)+min(b, math.MaxUint32), math.MaxUint32))
}

// mark records that a figure has changed.
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

// Changes are published once no row was received for quietTime, or waitTime after the
// first of them.
const (
	quietTime = 200 * time.Millisecond
	waitTime  = 600 * time.Millisecond
	// openTime is how long sums wait for more rows.
	openTime = 5 * time.Second
)

// due reports whether the second is over and its rows have probably arrived. Rows of a host whose clock is ahead
// arrive before the second is over by the server's clock.
func (s *second) due(now time.Time) bool {
	if len(s.pending) == 0 || now.Sub(s.latest) < quietTime && now.Sub(s.first) < waitTime {
		return false
	}
	return now.Unix() > s.start || now.Unix() < s.start-1
}

// publish makes the pending changes part of a version.
func (s *second) publish(version uint32) {
	for _, place := range s.pending {
		s.figures[place].pending, s.figures[place].version = false, version
	}
	s.pending, s.version = s.pending[:0], version
}
