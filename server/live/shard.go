package live

import (
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

// keyName is one session's view of one pair of hosts.
type keyName struct{ session, source, destination string }

// key is a keyName as ids.
type key struct {
	name                keyName
	session             uint32
	source, destination uint32
	seen                time.Time
	// ends are the sites of the hosts, as of a version of the labels.
	ends    siteEnds
	labels  uint32
	elected bool // its session counted for the pair in the last published second
}

// shard is one part of the pairs.
type shard struct {
	of      *Pairs
	mutex   sync.Mutex
	keys    []key
	free    []uint32
	ids     map[keyName]uint32
	pairs   map[[2]uint32][]uint32 // keys of a pair of agents
	seconds map[int64]*second
}

func newShard(of *Pairs) *shard {
	return &shard{of: of, ids: map[keyName]uint32{}, pairs: map[[2]uint32][]uint32{}, seconds: map[int64]*second{}}
}

func (p *shard) add(batch archive.Batch, now time.Time) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for row, err := range flows.Rows(batch.Agent, batch.Record) {
		if err != nil {
			return err
		}
		p.addRow(row, now)
	}
	return nil
}

func (p *shard) addRow(row *flows.Row, now time.Time) {
	if row.Source == "" {
		return
	}
	start := floor(row.Middle().UnixNano(), int64(time.Second)) / int64(time.Second)
	if start > now.Unix()+ahead {
		p.of.warnOnce(&p.of.early, "rows of flows lie in the future and are not watched", "agent", row.Destination, "time", row.End)
		return
	}
	if start <= now.Unix()-History { // delayed in a spool, for example; only the archive has it
		return
	}
	id, ok := p.find(row)
	if !ok {
		p.of.warnOnce(&p.of.refused, "too many pairs of hosts; some are not watched", "limit", p.of.limit)
		return
	}
	p.keys[id].seen = now
	s := p.seconds[start]
	if s == nil {
		s = &second{start: start, begun: now, open: map[uint32]*flows.Sum{}}
		p.seconds[start] = s
	}
	f := s.take(id, len(p.keys))
	s.add(f, row)
	s.mark(f, now)
	p.elect(s, f, now)
	p.addSite(&p.keys[id], row)
}

// elect determines which session of the pair counts in the second.
func (p *shard) elect(s *second, changed *figure, now time.Time) {
	k := &p.keys[changed.key]
	keys := p.pairs[[2]uint32{k.source, k.destination}]
	elected := flows.Elect(func(yield func(string, float64) bool) {
		for _, id := range keys {
			if f := s.find(id); f != nil && !yield(p.keys[id].name.session, float64(f.packets)) {
				return
			}
		}
	}, "", 1)
	for _, id := range keys {
		f := s.find(id)
		if f == nil {
			continue
		}
		before := f.elected
		if f.elected = p.keys[id].name.session == elected; f.elected && !before {
			s.mark(f, now)
		}
	}
}

// find returns the id of a row's key, which it adds if needed.
func (p *shard) find(row *flows.Row) (uint32, bool) {
	name := keyName{row.Session, row.Source, row.Destination}
	if id, known := p.ids[name]; known {
		return id, true
	}
	if p.of.kept.Add(1) > int64(p.of.limit) {
		p.of.kept.Add(-1)
		return 0, false
	}
	name = keyName{strings.Clone(name.session), strings.Clone(name.source), strings.Clone(name.destination)}
	id := uint32(len(p.keys))
	if n := len(p.free); n > 0 {
		id, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.keys = append(p.keys, key{})
	}
	k := key{name: name, session: p.of.names.take(name.session), source: p.of.names.take(name.source), destination: p.of.names.take(name.destination)}
	p.keys[id], p.ids[name] = k, id
	pair := [2]uint32{k.source, k.destination}
	p.pairs[pair] = append(p.pairs[pair], id)
	p.keys[id].elected = len(p.pairs[pair]) == 1
	return id, true
}

// addSite adds a row to the sums of the sites of its hosts.
func (p *shard) addSite(k *key, row *flows.Row) {
	labels := p.of.sites.labels.Load()
	if labels == nil {
		return
	}
	if k.labels != labels.version {
		k.labels, k.ends = labels.version, siteEnds{labels.of[k.name.source], labels.of[k.name.destination]}
	}
	p.of.sites.add(siteKey{k.ends, k.name.session}, row, k.elected)
}

// publish makes the changes that are due part of a version, and drops old seconds and pairs.
func (p *shard) publish(now time.Time, version uint32, purge bool) (shown bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for start, s := range p.seconds {
		if start <= now.Unix()-History-1 {
			delete(p.seconds, start)
			continue
		}
		if now.Sub(s.begun) > openTime {
			s.open = nil
		}
		if s.due(now) {
			for _, place := range s.pending {
				p.keys[s.figures[place].key].elected = s.figures[place].elected
			}
			s.publish(version)
			shown = true
		}
	}
	if purge {
		p.purge(now)
	}
	return shown
}

// purge drops pairs without figures in any second.
func (p *shard) purge(now time.Time) {
	for name, id := range p.ids {
		k := &p.keys[id]
		if now.Sub(k.seen) <= idleTime {
			continue
		}
		delete(p.ids, name)
		p.of.kept.Add(-1)
		pair := [2]uint32{k.source, k.destination}
		p.pairs[pair] = slices.DeleteFunc(p.pairs[pair], func(other uint32) bool { return other == id })
		if len(p.pairs[pair]) == 0 {
			delete(p.pairs, pair)
		}
		for _, n := range []uint32{k.session, k.source, k.destination} {
			p.of.names.drop(n)
		}
		*k = key{}
		p.free = append(p.free, id)
	}
}
