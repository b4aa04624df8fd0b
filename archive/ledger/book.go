package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/quota"
)

const (
	// supersededAfter is how long an agent has to deliver newer sequences of batches
	// before one that stays silent may expire. Spools deliver in the order of writing and
	// retry within seconds, so by then the agent holds no batch of the silent one.
	supersededAfter = time.Hour
	// silentMost is the age at which any silent sequence expires.
	silentMost = 366 * 24 * time.Hour
	sweepEvery = time.Minute
	// FoldedEpoch has the counts of expired sequences of a stream.
	FoldedEpoch = math.MaxUint64
)

// holding is what the archive keeps for one agent besides its rows and columns.
type holding struct {
	sequences, gaps int
	// swept is when its sequences were last searched for expired ones.
	swept time.Time
}

// newest has when an agent last began a sequence, and when it last delivered a batch.
type newest struct{ begun, seen time.Time }

// Book has the delivery states of some agents. Plan and Accept are called one at a time, the
// other methods at any time.
type Book struct {
	// Quota of each agent.
	Quota archive.Quota

	mutex      sync.Mutex
	deliveries map[Sender]*Delivery
	holdings   map[string]*holding
	newest     map[string]*newest
	stored     archive.Delivered // by all senders
	// expired are senders that were folded into others since the states were saved.
	expired []Sender
}

// NewBook returns an empty book.
func NewBook(quota archive.Quota) *Book {
	return &Book{Quota: quota, deliveries: map[Sender]*Delivery{}, holdings: map[string]*holding{}, newest: map[string]*newest{}}
}

// Load replaces all states.
func (b *Book) Load(states map[Sender]*Delivery) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.deliveries, b.stored = states, archive.Delivered{}
	for _, h := range b.holdings {
		h.sequences, h.gaps = 0, 0
	}
	for key, d := range b.deliveries {
		h := b.holding(key.Agent)
		h.sequences++
		h.gaps += len(d.Extras)
		b.stored.Batches, b.stored.Rows = b.stored.Batches+d.Batches, b.stored.Rows+d.Rows
	}
}

// Add adds states of senders that the book does not have.
func (b *Book) Add(states map[Sender]*Delivery) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for key, d := range states {
		b.deliveries[key] = d
		h := b.holding(key.Agent)
		h.sequences++
		h.gaps += len(d.Extras)
	}
}

// Get returns the state of a sender, or nil. It must not be changed.
func (b *Book) Get(key Sender) *Delivery {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.deliveries[key]
}

// All returns all states, which must not be changed.
func (b *Book) All() map[Sender]*Delivery {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return maps.Clone(b.deliveries)
}

// Len is the number of states.
func (b *Book) Len() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.deliveries)
}

// Holding returns how many sequences and gaps count against the quotas of an agent.
func (b *Book) Holding(agent string) (sequences, gaps int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	h := b.holding(agent)
	return h.sequences, h.gaps
}

// Stale reports whether sequences have expired since Expired was last called.
func (b *Book) Stale() bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.expired) > 0
}

// Expired returns the sequences that have expired since it was last called: what is saved of
// them must go, and the sums of their streams, under FoldedEpoch, be saved.
func (b *Book) Expired() []Sender {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	list := b.expired
	b.expired = nil
	return list
}

// Forget drops the states of a stream.
func (b *Book) Forget(stream string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for key, d := range b.deliveries {
		if key.Stream == stream {
			delete(b.deliveries, key)
			h := b.holding(key.Agent)
			h.sequences--
			h.gaps -= len(d.Extras)
		}
	}
}

// Delivered returns the sums for an agent over all its epochs.
func (b *Book) Delivered(agent string) map[string]archive.Delivered {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	out := map[string]archive.Delivered{}
	for key, d := range b.deliveries {
		if key.Agent == agent {
			sum := out[key.Stream]
			sum.Batches += d.Batches
			sum.Rows += d.Rows
			sum.Missing += d.Missing
			out[key.Stream] = sum
		}
	}
	return out
}

// Stored returns the sums of what Load was given and of the commits since.
func (b *Book) Stored() archive.Delivered {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.stored
}

// Accept updates the states after a commit.
func (b *Book) Accept(c *Commit) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for key, state := range c.States {
		h, before := b.holding(key.Agent), b.deliveries[key]
		fresh := before == nil
		if fresh {
			h.sequences++
			before = &Delivery{}
		}
		h.gaps += len(state.Extras) - len(before.Extras)
		b.stored.Batches, b.stored.Rows = b.stored.Batches+state.Batches-before.Batches, b.stored.Rows+state.Rows-before.Rows
		b.heard(key, fresh, c.At)
		b.deliveries[key] = state
	}
}

func (b *Book) holding(agent string) *holding {
	h := b.holdings[agent]
	if h == nil {
		h = &holding{}
		b.holdings[agent] = h
	}
	return h
}

// again notes a batch that had been stored.
func (b *Book) again(key Sender, now time.Time) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if d := b.deliveries[key]; d != nil {
		d.Seen = now
	}
	b.heard(key, false, now)
}

// admit checks an agent's quota of sequences and gaps. state is nil for a new sequence.
func (b *Book) admit(c *Commit, key Sender, state *Delivery) error {
	if key.Agent == archive.OwnAgent {
		return nil
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	h := b.holding(key.Agent)
	if state == nil {
		if limit := b.Quota.Sequences; h.sequences+c.sequences[key.Agent] >= limit && !b.sweep(key.Agent, h, c.At) {
			return &quota.Error{Quota: "sequences", Limit: int64(limit), Unit: "sequences of batches for each agent", Later: true,
				What: fmt.Sprintf("begin another sequence of batches of %q (every start of an agent begins one for each of its streams)", key.Stream)}
		}
		c.sequences[key.Agent]++
	} else if limit := b.Quota.Gaps; h.gaps >= limit && len(state.Extras) > 0 {
		return &quota.Error{Quota: "gaps", Limit: int64(limit), Unit: "batches after a gap for each agent", Later: true,
			What: fmt.Sprintf("store a batch of %q whose predecessors have not arrived", key.Stream)}
	}
	return nil
}

// sweep folds the expired sequences of an agent into one for each stream, and reports
// whether there were any. The caller holds the lock.
func (b *Book) sweep(agent string, h *holding, now time.Time) bool {
	if now.Sub(h.swept) < sweepEvery {
		return false
	}
	h.swept = now
	return b.expire(func(key Sender, d *Delivery) bool { return key.Agent == agent && b.superseded(key, d, supersededAfter) })
}

// superseded reports whether a sequence has been silent for that long while its agent
// began and delivered another.
func (b *Book) superseded(key Sender, d *Delivery, after time.Duration) bool {
	n := b.newest[key.Agent]
	return n != nil && n.begun.After(d.Seen) && n.seen.Sub(d.Seen) >= after
}

// heard notes the arrival of a batch of a sequence. The caller holds the lock.
func (b *Book) heard(key Sender, first bool, now time.Time) {
	n := b.newest[key.Agent]
	if n == nil {
		n = &newest{}
		b.newest[key.Agent] = n
	}
	if n.seen = now; first {
		n.begun = now
	}
}

// expire folds the sequences that are selected. The caller holds the lock.
func (b *Book) expire(selected func(Sender, *Delivery) bool) bool {
	found := false
	for key, d := range b.deliveries {
		if key.Epoch == FoldedEpoch || !selected(key, d) {
			continue
		}
		sum := Sender{key.Agent, key.Stream, FoldedEpoch}
		total := &Delivery{}
		if before := b.deliveries[sum]; before != nil {
			total = before.Clone()
		} else {
			b.holding(key.Agent).sequences++
		}
		total.Batches, total.Rows, total.Missing = total.Batches+d.Batches, total.Rows+d.Rows, total.Missing+d.Missing
		total.Seen = d.Seen
		b.deliveries[sum] = total
		delete(b.deliveries, key)
		h := b.holding(key.Agent)
		h.sequences--
		h.gaps -= len(d.Extras)
		// What is saved would bring them back.
		b.expired = append(b.expired, key)
		found = true
	}
	return found
}

// ExpireSilent expires the sequences that have been silent for very long, and those
// superseded for a month. It is not called during a commit.
func (b *Book) ExpireSilent(now time.Time) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.expire(func(key Sender, d *Delivery) bool {
		return now.Sub(d.Seen) >= silentMost || now.Sub(d.Seen) >= 31*24*time.Hour && b.superseded(key, d, supersededAfter)
	})
}

// FairShare is the largest number of rows such that at most keep are left if nobody has
// more.
func FairShare(totals []int64, keep int64) int64 {
	slices.Sort(totals)
	for i, total := range totals {
		share := keep / int64(len(totals)-i)
		if total > share {
			return share
		}
		keep -= total
	}
	return math.MaxInt64
}
