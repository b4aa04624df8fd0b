// Package ingest takes batches from the bus to the archive: it decodes them, commits
// many at a time, acknowledges each batch once it is on disk, and publishes new
// batches to live subscribers.
//
// It has no storage: a batch that is not acknowledged is still in its sender's spool.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
)

// Options of an Ingest. Zero values select the defaults.
type Options struct {
	Archive archive.Archive
	Log     *slog.Logger
	// QueueBytes limits the queue; Accept blocks beyond it. Default 128 MiB.
	QueueBytes int64
	// CommitBytes limits one commit; default 48 MiB.
	CommitBytes int64
	// Linger is how long a commit waits for more batches; default 100 ms.
	Linger time.Duration
	// Lanes are set in a fleet: batches are stored in the lanes that this server holds (OpenLane),
	// and the server's own rows in a lane of its own (UseLane).
	Lanes bool
	// Commits limits the commits of lanes at a time; default 8.
	Commits int
	// Refused, if set, is called with each batch of an agent that was refused because of
	// its contents or a quota.
	Refused func(agent string, err error)
}

// Ingest queues batches and stores them in the archive.
type Ingest struct {
	options Options
	live    *Live
	epoch   uint64 // of the server's batches
	main    *pipe
	commits chan struct{} // one for each running commit of a lane

	mu      sync.Mutex
	changed *sync.Cond // when the queue has space
	adopt   func(archive.Batch) (archive.Batch, error)
	lanes   map[int]*pipe
	numbers map[string]uint64 // next sequence number of the server's batches, by stream
	bytes   int64
	hurried bool
	stats   Stats
}

// item is one queued batch. The server's own have a record from the start.
type item struct {
	delivery bus.Delivery
	batch    archive.Batch
	err      error
	// For a batch from Put: its size in memory, and the callback for its outcome.
	bytes int64
	done  func(error)
	// implausible rows have a time at which the measurement cannot have been made.
	implausible uint64
}

func (i *item) size() int64 { return int64(len(i.delivery.Payload)) + i.bytes }

// refused reports whether the batch can never be stored.
func (i *item) refused() bool {
	return errors.Is(i.err, bus.ErrRejected) || errors.Is(i.err, measure.ErrBatch)
}

// Stats count since the start.
type Stats struct {
	Batches, Rows uint64 // stored, new ones
	Duplicates    uint64 // batches stored before
	Rejected      uint64 // batches that can never be stored
	Failed        uint64 // batches that the archive failed to store, to be retried
	Unsupported   uint64 // batches in a format of a later version, each attempt
	OwnDropped    uint64 // rows of the server that were dropped
	Commits       uint64
	CommitSeconds float64 // total time of commits
	QueueBytes    int64   // waiting now
	QueueBatches  int
	LiveMissed    uint64 // batches that slow subscribers missed
	Implausible   uint64 // rows stored with an implausible time
}

// Defaults.
const (
	queueBytes  = 128 << 20
	commitBytes = 48 << 20
	linger      = 100 * time.Millisecond
	commits     = 8
	// laneLinger is the default of a server with lanes, which has many small commits.
	laneLinger = 500 * time.Millisecond
)

// New starts.
func New(options Options) *Ingest {
	if options.QueueBytes == 0 {
		options.QueueBytes = queueBytes
	}
	if options.CommitBytes == 0 {
		options.CommitBytes = commitBytes
	}
	if options.Linger == 0 && options.Lanes {
		options.Linger = laneLinger
	}
	options.Linger, options.Commits = cmp.Or(options.Linger, linger), cmp.Or(options.Commits, commits)
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Refused == nil {
		options.Refused = func(string, error) {}
	}
	i := &Ingest{options: options, live: newLive(), lanes: map[int]*pipe{}, numbers: map[string]uint64{}, epoch: rand.Uint64()}
	i.changed = sync.NewCond(&i.mu)
	i.adopt = func(b archive.Batch) (archive.Batch, error) {
		return b, fmt.Errorf("%w: this server does not accept data from applications", bus.ErrRejected)
	}
	if options.Lanes {
		i.commits = make(chan struct{}, options.Commits)
		i.main = i.newPipe(bus.NoLane, options.Linger, nil)
		return i
	}
	always := &target{store: options.Archive.Store, held: func() bool { return true }}
	always.ctx, always.stop = context.WithCancelCause(context.Background())
	i.main = i.newPipe(bus.NoLane, options.Linger, always)
	return i
}

// Live publishes stored batches.
func (i *Ingest) Live() *Live { return i.live }

var errClosing = errors.New("server is stopping")

// Accept queues a batch; it blocks while the queue is full. The delivery is answered
// later.
func (i *Ingest) Accept(delivery bus.Delivery) {
	p := i.main
	if i.options.Lanes {
		i.mu.Lock()
		p = i.lanes[delivery.Lane]
		i.mu.Unlock()
	}
	if p == nil {
		delivery.Answer(errLane)
		return
	}
	if err := p.enqueue(item{delivery: delivery}); err != nil {
		delivery.Answer(err)
	}
}

// number assigns a sequence number to a batch of the server. It does so in the order of
// the queue: a batch that arrived after a higher number would be treated as a duplicate.
func (i *Ingest) number(it *item) {
	b, all := &it.batch, uint64(1)
	if it.done != nil {
		all = senders
	}
	n := i.numbers[b.Stream]
	i.numbers[b.Stream] = n + 1
	b.Epoch, b.Sequence, b.Oldest = i.epoch+n%all, n/all, n/all
}

// senders is the number of senders among which batches of applications are distributed:
// the archive writes several senders in parallel, but each of them sequentially.
const senders = 4

// Adopt sets the function that names relayed streams; without it they are rejected. Call
// it before the first batch. Agents retry after errors other than bus.ErrRejected.
func (i *Ingest) Adopt(adopt func(archive.Batch) (archive.Batch, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.adopt = adopt
}

// Failing returns the error of the last commit, or nil.
func (i *Ingest) Failing() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.lanes {
		if p.failing != nil {
			return fmt.Errorf("lane %d: %w", p.lane, p.failing)
		}
	}
	return i.main.failing
}

// Stats returns the current counts.
func (i *Ingest) Stats() Stats {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stats
	s.QueueBytes, s.QueueBatches = i.bytes, len(i.main.queue)
	for _, p := range i.lanes {
		s.QueueBatches += len(p.queue)
	}
	s.LiveMissed = i.live.missed()
	return s
}

// Share returns how full the queue is, 0 to 1.
func (i *Ingest) Share() float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return float64(i.bytes) / float64(i.options.QueueBytes)
}

// Hurry makes Accept and Put fail instead of waiting for space. A server that stops while
// its archive is failing would otherwise wait forever.
func (i *Ingest) Hurry() {
	i.mu.Lock()
	i.hurried = true
	i.changed.Broadcast()
	i.mu.Unlock()
}

// Close commits all queued batches and stops.
func (i *Ingest) Close() {
	i.mu.Lock()
	pipes := append(slices.Collect(maps.Values(i.lanes)), i.main)
	i.mu.Unlock()
	for _, p := range pipes {
		p.close()
	}
	i.live.close()
}
