package live

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"pillion.dev/archive"
)

const (
	// History is for how many seconds figures are kept.
	History = 60
	// ahead is how far a host's clock may be ahead, in seconds; behind is as History.
	ahead = 60
	// idleTime is after how long without a row a pair is forgotten; no second has
	// figures of it then.
	idleTime = (History + ahead + 10) * time.Second
	tickTime = 100 * time.Millisecond
)

// keyName is one session's view of one pair of hosts.
type keyName struct{ session, source, destination string }

// key is a keyName by numbers.
type key struct {
	name                keyName
	session             uint32
	source, destination uint32
	seen                time.Time
}

// Pairs keeps, for every session and pair of hosts, the figures of the last minute
// by the second. All watchers share it. It takes about 3 KB for a pair, and the
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
	changed chan struct{} // is closed at the next version
	purged  time.Time
	// Rows beyond the limit, of the future, and batches that cannot be read.
	refused, strange, broken uint64
}

// names gives numbers to texts, never the same one twice.
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

// NewPairs makes one that keeps at most limit pairs.
func NewPairs(limit int, now func() time.Time, log *slog.Logger) *Pairs {
	return &Pairs{
		limit: limit, log: log, now: now, ids: map[keyName]uint32{}, pairs: map[[2]uint32][]uint32{},
		names:   names{ids: map[string]uint32{}, used: map[uint32]int{}, text: map[uint32]string{}},
		seconds: map[int64]*second{}, changed: make(chan struct{}), version: 1,
	}
}

// Run takes batches of flows, which it releases, until the context or the batches end.
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
				p.complain(&p.broken, "rows of flows cannot be watched", "agent", batch.Agent, "error", err)
			}
		}
	}
}

// complain counts, and logs the first time.
func (p *Pairs) complain(count *uint64, message string, about ...any) {
	if *count++; *count == 1 {
		p.log.Warn(message, about...)
	}
}

// add takes the rows of a batch in.
func (p *Pairs) add(batch archive.Batch, now time.Time) (err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	defer survive(&err)
	r := rowsOf(batch)
	for i := range r.n {
		p.addRow(r, i, now)
	}
	return nil
}

func (p *Pairs) addRow(r *rows, i int, now time.Time) {
	end, interval, ok := r.span(i)
	if !ok || r.source(i) == "" {
		return
	}
	start := floor(end.UnixNano()-int64(interval)/2, int64(time.Second)) / int64(time.Second)
	if start > now.Unix()+ahead {
		p.complain(&p.strange, "rows of flows are of the future and cannot be watched", "agent", r.agent, "time", end)
		return
	}
	if start <= now.Unix()-History { // of a spool, for one; the archive has it
		return
	}
	id, ok := p.find(r, i)
	if !ok {
		p.complain(&p.refused, "too many pairs are watched", "limit", p.limit)
		return
	}
	p.keys[id].seen = now
	s := p.seconds[start]
	if s == nil {
		s = &second{start: start, begun: now, open: map[uint32]*spread{}}
		p.seconds[start] = s
	}
	f := s.take(id, len(p.keys))
	s.add(f, r, i, interval)
	s.mark(f, now)
	p.elect(s, f, now)
}

// elect says which session of the pair counts in the second: that which sees most.
func (p *Pairs) elect(s *second, changed *figure, now time.Time) {
	k := &p.keys[changed.key]
	keys := p.pairs[[2]uint32{k.source, k.destination}]
	if len(keys) == 1 {
		changed.best = true
		return
	}
	var best, before *figure
	for _, id := range keys {
		f := s.find(id)
		if f == nil {
			continue
		}
		if f.best {
			before = f
		}
		if best == nil || f.rate > best.rate || f.rate == best.rate && f.packets > best.packets {
			best = f
		}
	}
	if before != best {
		if before != nil {
			before.best = false
		}
		best.best = true
		s.mark(best, now)
	}
}

// find is the number of a row's key.
func (p *Pairs) find(r *rows, i int) (uint32, bool) {
	name := keyName{r.session(i), r.source(i), r.agent}
	if id, known := p.ids[name]; known {
		return id, true
	}
	name = keyName{own(name.session), own(name.source), own(name.destination)}
	if id, known := p.ids[name]; known { // it was not valid as it came
		return id, true
	}
	if len(p.ids) >= p.limit {
		return 0, false
	}
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

// publish shows what has come, and forgets what is old.
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

// purge forgets pairs of which no second has figures any more.
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
