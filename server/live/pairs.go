// Package live sums rows of the stream flows as they are stored: in windows of time for
// watchers of one pair of hosts, and by the second for watchers of all pairs. It keeps
// sums for a minute or so; the archive has the rest.
//
// It does not decide who may watch. In the flow it is parallel to the archive, between
// ingest and the API.
package live

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/flows"
)

const (
	// History is how many seconds of figures are kept.
	History = 60
	// ahead is how far a host's clock may be ahead, in seconds; it may be behind by History.
	ahead = 60
	// idleTime is how long a pair without rows is kept: until no second has figures of it.
	idleTime = (History + ahead + 10) * time.Second
	tickTime = 100 * time.Millisecond
)

// keyName is one session's view of one pair of hosts.
type keyName struct{ session, source, destination string }

// key is a keyName as ids.
type key struct {
	name                keyName
	session             uint32
	source, destination uint32
	seen                time.Time
}

// Pairs keeps, for every session and pair of hosts, the figures of the last minute
// by the second. All watchers share it. It takes about 3 KB per pair, and the
// histograms of the last seconds.
type Pairs struct {
	limit int
	log   *slog.Logger
	now   func() time.Time

	mutex   sync.Mutex
	keys    []key
	free    []uint32
	ids     map[keyName]uint32
	names   names
	pairs   map[[2]uint32][]uint32 // keys of a pair of agents
	seconds map[int64]*second
	version uint32
	changed chan struct{} // closed at the next version
	purged  time.Time
	// Rows beyond the limit, rows from the future, and batches that cannot be read.
	refused, early, broken uint64
}

// names assigns ids to names. An id is never reused.
type names struct {
	ids  map[string]uint32
	used map[uint32]int
	text map[uint32]string
	next uint32
}

func (n *names) take(text string) uint32 {
	id, known := n.ids[text]
	if !known {
		id = n.next
		n.next++
		n.ids[text], n.text[id] = id, text
	}
	n.used[id]++
	return id
}

func (n *names) drop(id uint32) {
	if n.used[id]--; n.used[id] > 0 {
		return
	}
	delete(n.ids, n.text[id])
	delete(n.text, id)
	delete(n.used, id)
}

// NewPairs keeps at most limit pairs.
func NewPairs(limit int, now func() time.Time, log *slog.Logger) *Pairs {
	return &Pairs{
		limit: limit, log: log, now: now, ids: map[keyName]uint32{}, pairs: map[[2]uint32][]uint32{},
		names:   names{ids: map[string]uint32{}, used: map[uint32]int{}, text: map[uint32]string{}},
		seconds: map[int64]*second{}, changed: make(chan struct{}), version: 1,
	}
}

// Run adds batches of flows, which it releases, until the context or the batches end.
func (p *Pairs) Run(ctx context.Context, batches <-chan archive.Batch) {
	ticks := time.NewTicker(tickTime)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			p.publish(p.now())
		case batch, open := <-batches:
			if !open {
				return
			}
			err := p.add(batch, p.now())
			batch.Record.Release()
			if err != nil {
				p.warnOnce(&p.broken, "cannot read rows of flows", "agent", batch.Agent, "error", err)
			}
		}
	}
}

// warnOnce counts, and logs the first time.
func (p *Pairs) warnOnce(count *uint64, message string, about ...any) {
	if *count++; *count == 1 {
		p.log.Warn(message, about...)
	}
}

// add adds the rows of a batch.
func (p *Pairs) add(batch archive.Batch, now time.Time) error {
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

func (p *Pairs) addRow(row *flows.Row, now time.Time) {
	if row.Source == "" {
		return
	}
	start := floor(row.Middle().UnixNano(), int64(time.Second)) / int64(time.Second)
	if start > now.Unix()+ahead {
		p.warnOnce(&p.early, "rows of flows lie in the future and are not watched", "agent", row.Destination, "time", row.End)
		return
	}
	if start <= now.Unix()-History { // delayed in a spool, for example; only the archive has it
		return
	}
	id, ok := p.find(row)
	if !ok {
		p.warnOnce(&p.refused, "too many pairs of hosts; some are not watched", "limit", p.limit)
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
}

// elect determines which session of the pair counts in the second.
func (p *Pairs) elect(s *second, changed *figure, now time.Time) {
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
func (p *Pairs) find(row *flows.Row) (uint32, bool) {
	name := keyName{row.Session, row.Source, row.Destination}
	if id, known := p.ids[name]; known {
		return id, true
	}
	if len(p.ids) >= p.limit {
		return 0, false
	}
	name = keyName{strings.Clone(name.session), strings.Clone(name.source), strings.Clone(name.destination)}
	id := uint32(len(p.keys))
	if n := len(p.free); n > 0 {
		id, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.keys = append(p.keys, key{})
	}
	k := key{name: name, session: p.names.take(name.session), source: p.names.take(name.source), destination: p.names.take(name.destination)}
	p.keys[id], p.ids[name] = k, id
	pair := [2]uint32{k.source, k.destination}
	p.pairs[pair] = append(p.pairs[pair], id)
	return id, true
}

// publish makes changes visible to readers, and drops old seconds and pairs.
func (p *Pairs) publish(now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	shown := false
	for start, s := range p.seconds {
		if start <= now.Unix()-History-1 {
			delete(p.seconds, start)
			continue
		}
		if now.Sub(s.begun) > openTime {
			s.open = nil
		}
		if s.due(now) {
			s.publish(p.version + 1)
			shown = true
		}
	}
	if shown {
		p.version++
		close(p.changed)
		p.changed = make(chan struct{})
	}
	if now.Sub(p.purged) > 10*time.Second {
		p.purged = now
		p.purge(now)
	}
}

// purge drops pairs without figures in any second.
func (p *Pairs) purge(now time.Time) {
	for name, id := range p.ids {
		k := &p.keys[id]
		if now.Sub(k.seen) <= idleTime {
			continue
		}
		delete(p.ids, name)
		pair := [2]uint32{k.source, k.destination}
		p.pairs[pair] = slices.DeleteFunc(p.pairs[pair], func(other uint32) bool { return other == id })
		if len(p.pairs[pair]) == 0 {
			delete(p.pairs, pair)
		}
		for _, n := range []uint32{k.session, k.source, k.destination} {
			p.names.drop(n)
		}
		*k = key{}
		p.free = append(p.free, id)
	}
}
