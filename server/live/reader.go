package live

import (
	"errors"
	"maps"
	"slices"

	"pillion.dev/archive"
)

// PairSecond holds the figures of pairs of hosts in one second, in columns. Sources and
// Destinations are places among all Agents that one Reader returned.
type PairSecond struct {
	StartMs                     int64
	Agents                      []string
	Sources, Destinations       []uint32
	Packets, Expected, Lost     []uint32
	Reordered, Duplicated       []uint32
	P50, P99, Rate, ClockErrors []float32
}

// placesMost bounds the agents that one reader has been given and that no pair has any more.
const placesMost = 50_000

// ErrPlaces ends a reader that has been given too many agents; a new one is given only
// those that exist.
var ErrPlaces = errors.New("too many agents have come and gone; reconnect")

// Scope is what a reader follows; empty: the figures of all pairs.
type Scope struct {
	// Session whose figures are read. Without one, the figures of each pair are of the session that counts for the
	// pair.
	Session string
	// Sites of the sources and of the destinations; nil: all. The empty name stands for hosts without a site.
	Source, Destination *string
	// Seen are the pairs that the reader may see. Agents that it does not have are without a site.
	Seen *archive.Scope
}

// Reader follows the figures of pairs for one watcher.
type Reader struct {
	pairs   *Pairs
	scope   Scope
	history int64
	version uint32
	places  map[uint32]uint32
}

// Reader begins history seconds ago.
func (p *Pairs) Reader(scope Scope, history int) *Reader {
	return &Reader{pairs: p, scope: scope, history: int64(history), places: map[uint32]uint32{}}
}

// Next returns the seconds that are new or have changed since its last call, with what
// changed, oldest first. more is closed at the next change.
func (r *Reader) Next() (seconds []PairSecond, more <-chan struct{}, err error) {
	version, more := r.pairs.current()
	found := map[int64]*PairSecond{}
	for _, s := range r.pairs.shards {
		r.read(s, version, found)
	}
	for _, start := range slices.Sorted(maps.Keys(found)) {
		seconds = append(seconds, *found[start])
	}
	r.name(seconds)
	r.version = version
	r.pairs.names.mutex.Lock()
	gone := len(r.places) - len(r.pairs.names.text)
	r.pairs.names.mutex.Unlock()
	if gone > placesMost {
		return nil, nil, ErrPlaces
	}
	return seconds, more, nil
}

// read adds what has changed in a shard up to a version. Agents are numbered as in the shard's keys.
func (r *Reader) read(p *shard, version uint32, found map[int64]*PairSecond) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	session, known := r.pairs.names.of(r.scope.Session)
	first := r.pairs.now().Unix() - r.history
	for start, s := range p.seconds {
		if s.version <= r.version || r.version == 0 && start < first {
			continue
		}
		for i := range s.figures {
			f := &s.figures[i]
			if f.version <= r.version || f.version > version {
				continue
			}
			k := &p.keys[f.key]
			if !(r.scope.Session == "" && f.elected || r.scope.Session != "" && known && k.session == session) || !r.scope.has(k) {
				continue
			}
			to := found[start]
			if to == nil {
				to = &PairSecond{StartMs: start * 1000}
				found[start] = to
			}
			to.put(k, f)
		}
	}
}

// has reports whether a pair may be seen and its hosts are at the sites.
func (s *Scope) has(k *key) bool {
	return s.at(s.Source, k.ends.Source, k.name.source) && s.at(s.Destination, k.ends.Destination, k.name.destination) &&
		s.Seen.HasPair(k.name.source, k.name.destination)
}

// at reports whether a host is at the wanted site; nil: anywhere.
func (s *Scope) at(wanted *string, site, host string) bool {
	if !s.Seen.HasAgent(host) {
		site = ""
	}
	return wanted == nil || *wanted == site
}

// put adds a figure, with the ids of its hosts.
func (s *PairSecond) put(k *key, f *figure) {
	s.Sources, s.Destinations = append(s.Sources, k.source), append(s.Destinations, k.destination)
	s.Packets = append(s.Packets, f.packets)
	s.Expected = append(s.Expected, f.expected)
	s.Lost = append(s.Lost, f.lost)
	s.Reordered, s.Duplicated = append(s.Reordered, f.reordered), append(s.Duplicated, f.duplicated)
	s.P50, s.P99 = append(s.P50, f.p50), append(s.P99, f.p99)
	s.Rate = append(s.Rate, f.rate)
	s.ClockErrors = append(s.ClockErrors, f.clock)
}

// name replaces the ids of hosts by places, and adds the names of those that are new.
func (r *Reader) name(seconds []PairSecond) {
	r.pairs.names.mutex.Lock()
	defer r.pairs.names.mutex.Unlock()
	for i := range seconds {
		s := &seconds[i]
		for j := range s.Sources {
			s.Sources[j], s.Destinations[j] = r.place(s, s.Sources[j]), r.place(s, s.Destinations[j])
		}
	}
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
