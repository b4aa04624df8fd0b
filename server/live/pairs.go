// Package live sums rows of the stream flows as they are stored: in windows of time for
// watchers of one pair of hosts, by the second for watchers of all pairs, and by site. It keeps
// sums for a minute or so; the archive has the rest.
//
// It does not decide who may watch. In the flow it is parallel to the archive, between
// ingest and the API.
package live

import (
	"context"
	"hash/maphash"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/archive"
)

const (
	// History is how many seconds of figures are kept.
	History = 60
	// ahead is how far a host's clock may be ahead, in seconds; it may be behind by History.
	ahead = 60
	// idleTime is how long a pair without rows is kept: until no second has figures of it.
	idleTime = (History + ahead + 10) * time.Second
	tickTime = 100 * time.Millisecond
	// shardCount is how many parts the pairs are divided into, each with a lock of its own.
	shardCount = 16
	// queueLength is how many batches wait for each of the goroutines that add them.
	queueLength = 64
)

// Pairs keeps, for every session and pair of hosts, the figures of the last minute
// by the second. All watchers share it. It takes about 9 KB per pair. Pairs are divided into shards by their destination, whose
// rows come in one batch.
type Pairs struct {
	limit  int
	log    *slog.Logger
	now    func() time.Time
	seed   maphash.Seed
	names  *names
	sites  *sites
	shards [shardCount]*shard
	// kept is the number of pairs in all shards.
	kept atomic.Int64
	// Rows beyond the limit, rows from the future, and batches that cannot be read.
	refused, early, broken atomic.Uint64

	mutex   sync.Mutex
	version uint32
	changed chan struct{} // closed at the next version
	purged  time.Time
}

// NewPairs keeps at most limit pairs.
func NewPairs(limit int, now func() time.Time, log *slog.Logger) *Pairs {
	p := &Pairs{limit: limit, log: log, now: now, seed: maphash.MakeSeed(), names: newNames(), sites: newSites(), changed: make(chan struct{}), version: 1}
	for i := range p.shards {
		p.shards[i] = newShard(p)
	}
	return p
}

// Kept returns the number of pairs, and the number of rows of further pairs, which are not watched.
func (p *Pairs) Kept() (pairs int, refused uint64) { return int(p.kept.Load()), p.refused.Load() }

// place is the position of the shard of an agent's rows.
func (p *Pairs) place(agent string) int { return int(maphash.String(p.seed, agent) % shardCount) }

// Run adds batches of flows, which it releases, until the context or the batches end.
func (p *Pairs) Run(ctx context.Context, batches <-chan archive.Batch) {
	queues := make([]chan archive.Batch, min(shardCount, runtime.GOMAXPROCS(0)))
	var workers sync.WaitGroup
	for i := range queues {
		queues[i] = make(chan archive.Batch, queueLength)
		workers.Go(func() {
			for batch := range queues[i] {
				p.take(batch)
			}
		})
	}
	defer workers.Wait()
	defer func() {
		for _, queue := range queues {
			close(queue)
		}
	}()
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
			queues[p.place(batch.Agent)%len(queues)] <- batch // rows of one agent stay in order
		}
	}
}

// take adds a batch and releases it.
func (p *Pairs) take(batch archive.Batch) {
	err := p.add(batch, p.now())
	batch.Record.Release()
	if err != nil {
		p.warnOnce(&p.broken, "cannot read rows of flows", "agent", batch.Agent, "error", err)
	}
}

// warnOnce counts, and logs the first time.
func (p *Pairs) warnOnce(count *atomic.Uint64, message string, about ...any) {
	if count.Add(1) == 1 {
		p.log.Warn(message, about...)
	}
}

// add adds the rows of a batch.
func (p *Pairs) add(batch archive.Batch, now time.Time) error {
	return p.shards[p.place(batch.Agent)].add(batch, now)
}

// publish makes changes visible to readers, and drops old seconds and pairs.
func (p *Pairs) publish(now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	purge := now.Sub(p.purged) > 10*time.Second
	if purge {
		p.purged = now
		p.sites.purge(now)
	}
	shown := false
	for _, s := range p.shards {
		shown = s.publish(now, p.version+1, purge) || shown
	}
	if shown {
		p.version++
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// current returns the version that is published in all shards, and the channel that is closed at the next.
func (p *Pairs) current() (uint32, <-chan struct{}) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.version, p.changed
}
