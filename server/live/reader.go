package live

import (
	"errors"
	"slices"
)

// PairSecond holds the figures of pairs of hosts in one second, in columns. Sources and
// Destinations are places among all Agents that one Reader returned.
type PairSecond struct {
	StartMs                     int64
	Agents                      []string
	Sources, Destinations       []uint32
	Packets, Expected, Lost     []uint32
	P50, P99, Rate, ClockErrors []float32
}

// placesMost bounds the agents that one reader has been given.
const placesMost = 50_000

// ErrPlaces ends a reader that has been given too many agents; a new one is given only
// those that exist.
var ErrPlaces = errors.New("too many agents have come and gone; reconnect")

// Reader follows the figures of all pairs for one watcher.
type Reader struct {
	pairs   *Pairs
	session string
	history int64
	version uint32
	places  map[uint32]uint32
}

// Reader begins history seconds ago. Without a session, it reads the one that counts for
// each pair.
func (p *Pairs) Reader(session string, history int) *Reader {
	return &Reader{pairs: p, session: session, history: int64(history), places: map[uint32]uint32{}}
}

// Next returns the seconds that are new or have changed since its last call, with what
// changed, oldest first. more is closed at the next change.
func (r *Reader) Next() (seconds []PairSecond, more <-chan struct{}, err error) {
	p := r.pairs
	p.mutex.Lock()
	defer p.mutex.Unlock()
	session, known := p.names.ids[r.session]
	var starts []int64
	for start, s := range p.seconds {
		if s.version > r.version && (r.version > 0 || start >= p.now().Unix()-r.history) {
			starts = append(starts, start)
		}
	}
	slices.Sort(starts)
	for _, start := range starts {
		s := p.seconds[start]
		one := PairSecond{StartMs: start * 1000}
		for i := range s.figures {
			f := &s.figures[i]
			if f.version <= r.version {
				continue
			}
			k := &p.keys[f.key]
			if r.session == "" && f.elected || r.session != "" && known && k.session == session {
				r.put(&one, k, f)
			}
		}
		if len(one.Sources) > 0 {
			seconds = append(seconds, one)
		}
	}
	r.version = p.version
	if len(r.places) > placesMost {
		return nil, nil, ErrPlaces
	}
	return seconds, p.changed, nil
}

func (r *Reader) put(to *PairSecond, k *key, f *figure) {
	to.Sources = append(to.Sources, r.place(to, k.source))
	to.Destinations = append(to.Destinations, r.place(to, k.destination))
	to.Packets = append(to.Packets, f.packets)
	to.Expected = append(to.Expected, f.expected)
	to.Lost = append(to.Lost, f.lost)
	to.P50, to.P99 = append(to.P50, f.p50), append(to.P99, f.p99)
	to.Rate = append(to.Rate, f.rate)
	to.ClockErrors = append(to.ClockErrors, f.clock)
}

func (r *Reader) place(to *PairSecond, agent uint32) uint32 {
	place, known := r.places[agent]
	if !known {
		place = uint32(len(r.places))
		r.places[agent] = place
		to.Agents = append(to.Agents, r.pairs.names.text[agent])
	}
	return place
}
