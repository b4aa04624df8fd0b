// Package ingest takes batches from the bus to the archive: it decodes them, commits
// many at a time, acknowledges each batch once it is on disk, and publishes new
// batches to live subscribers.
//
// It has no storage: a batch that is not acknowledged is still in its sender's spool.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/omsp/relay"
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
	// Refused, if set, is called with each batch of an agent that was refused because of
	// its contents or a quota.
	Refused func(agent string, err error)
}

// Ingest queues batches and stores them in the archive.
type Ingest struct {
	options Options
	live    *Live
	groups  chan []item
	ended   sync.WaitGroup
	epoch   uint64 // of the server's batches
	// own are batches of the server that the archive could not store: there is no other
	// copy. They precede the next group. Only commitAll uses it.
	own []item

	mu      sync.Mutex
	changed *sync.Cond // of the fields below
	adopt   func(archive.Batch) (archive.Batch, error)
	queue   []item
	numbers map[string]uint64 // next sequence number of the server's batches, by stream
	bytes   int64
	hurried bool
	closed  bool
	failing error // of the last commit
	stats   Stats
}

// item is one queued batch. Those of the server have a record from the start.
type item struct {
	delivery bus.Delivery
	batch    archive.Batch
	err      error
	// For a batch from Put: its size in memory, and the callback for its outcome.
	bytes int64
	done  func(error)
	// implausible rows have a time that cannot be that of the measurement.
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
)

// New starts.
func New(options Options) *Ingest {
	if options.QueueBytes == 0 {
		options.QueueBytes = queueBytes
	}
	if options.CommitBytes == 0 {
		options.CommitBytes = commitBytes
	}
	if options.Linger == 0 {
		options.Linger = linger
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Refused == nil {
		options.Refused = func(string, error) {}
	}
	i := &Ingest{options: options, live: newLive(), groups: make(chan []item, 1), numbers: map[string]uint64{}, epoch: rand.Uint64()}
	i.changed = sync.NewCond(&i.mu)
	i.adopt = func(b archive.Batch) (archive.Batch, error) {
		return b, fmt.Errorf("%w: this server does not accept data from applications", bus.ErrRejected)
	}
	i.ended.Go(i.gather)
	i.ended.Go(i.commitAll)
	return i
}

// Live publishes stored batches.
func (i *Ingest) Live() *Live { return i.live }

var errClosing = errors.New("server is stopping")

// Accept queues a batch; it blocks while the queue is full. The delivery is answered
// later.
func (i *Ingest) Accept(delivery bus.Delivery) {
	if !i.enqueue(item{delivery: delivery}) {
		delivery.Answer(errClosing)
	}
}

func (i *Ingest) enqueue(it item) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	full := func() bool { return i.bytes > 0 && i.bytes+it.size() > i.options.QueueBytes }
	for !i.closed && !i.hurried && full() {
		i.changed.Wait()
	}
	if i.closed || i.hurried && full() {
		return false
	}
	if it.batch.Agent == OwnAgent {
		i.number(&it)
	}
	i.queue = append(i.queue, it)
	i.bytes += it.size()
	i.changed.Broadcast()
	return true
}

// number assigns a sequence number to a batch of the server. It does so in the order of
// the queue: a batch that arrived after a higher number would be treated as a duplicate.
func (i *Ingest) number(it *item) {
	b, all := &it.batch, uint64(1)
	if it.done != nil {
		all = lanes
	}
	n := i.numbers[b.Stream]
	i.numbers[b.Stream] = n + 1
	b.Epoch, b.Sequence, b.Oldest = i.epoch+n%all, n/all, n/all
}

// lanes is the number of senders among which batches of applications are distributed:
// the archive writes several senders in parallel, but each of them sequentially.
const lanes = 4

// gather groups queued batches and decodes them while the previous group is being
// committed.
func (i *Ingest) gather() {
	defer close(i.groups)
	for {
		group := i.next()
		if group == nil {
			return
		}
		i.decode(group)
		i.groups <- group
	}
}

// next waits for a first batch, lingers for more, and dequeues them.
func (i *Ingest) next() []item {
	i.mu.Lock()
	defer i.mu.Unlock()
	for len(i.queue) == 0 {
		if i.closed {
			return nil
		}
		i.changed.Wait()
	}
	begun := time.Now()
	wake := time.AfterFunc(i.options.Linger, func() {
		i.mu.Lock() // a broadcast between the check of the time and Wait below would be lost
		defer i.mu.Unlock()
		i.changed.Broadcast()
	})
	defer wake.Stop()
	for time.Since(begun) < i.options.Linger && i.bytes < i.options.CommitBytes && !i.closed {
		i.changed.Wait()
	}
	var n int
	var size int64
	for n = 0; n < len(i.queue) && (n == 0 || size+i.queue[n].size() <= i.options.CommitBytes); n++ {
		size += i.queue[n].size()
	}
	group := i.queue[:n:n]
	i.queue = i.queue[n:]
	if len(i.queue) == 0 {
		i.queue = nil
	}
	return group
}

// decode decodes a group on all processors.
func (i *Ingest) decode(group []item) {
	i.mu.Lock()
	adopt := i.adopt
	i.mu.Unlock()
	var workers sync.WaitGroup
	next := make(chan *item, len(group))
	for n := range group {
		next <- &group[n]
	}
	close(next)
	for range min(runtime.GOMAXPROCS(0), len(group)) {
		workers.Go(func() {
			for it := range next {
				it.decode(adopt)
			}
		})
	}
	workers.Wait()
}

func (i *item) decode(adopt func(archive.Batch) (archive.Batch, error)) {
	if i.batch.Record != nil {
		return
	}
	d := &i.delivery
	i.batch.Agent, i.batch.Key = d.Agent, d.Key
	if d.Agent == OwnAgent || isOwn(d.Stream) || strings.HasPrefix(d.Stream, namedPrefix) {
		i.err = fmt.Errorf("%w: the stream %q is written by the server only, as %q", bus.ErrRejected, d.Stream, OwnAgent)
		return
	}
	schema, record, err := d.Envelope.Decode()
	i.batch = archive.Batch{Agent: d.Agent, Key: d.Key, Oldest: d.Oldest, Schema: schema, Record: record}
	i.err = err
	if err == nil && strings.HasPrefix(d.Stream, relay.Prefix) {
		i.batch, i.err = adopt(i.batch)
	} else if err == nil {
		i.implausible = implausible(record, time.Now())
	}
}

// A time is implausible that is ahead of the server's clock, or as old as no spool keeps
// rows. Such rows are stored and counted: they differ from the time of arrival beside
// them, by which they are retained.
const (
	aheadMost  = time.Hour
	behindMost = 366 * 24 * time.Hour
)

func implausible(record arrow.RecordBatch, now time.Time) (n uint64) {
	times, ok := record.Column(0).(*array.Timestamp)
	if !ok {
		return 0
	}
	first, last := arrow.Timestamp(now.Add(-behindMost).UnixNano()), arrow.Timestamp(now.Add(aheadMost).UnixNano())
	for _, at := range times.Values() {
		if at < first || at > last {
			n++
		}
	}
	return n
}

// namedPrefix begins the names that the server assigns to streams of applications: only
// the server knows which are in use.
const namedPrefix = "oml_"

// Adopt sets the function that names relayed streams; without it they are rejected. Call
// it before the first batch. Agents retry after errors other than bus.ErrRejected.
func (i *Ingest) Adopt(adopt func(archive.Batch) (archive.Batch, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.adopt = adopt
}

// ownRetry is the delay before batches of the server are stored again.
const ownRetry = time.Second

func (i *Ingest) commitAll() {
	for open := true; open; {
		var again <-chan time.Time
		if len(i.own) != 0 { // no other batch may arrive for a long time: the queue may be full
			again = time.After(ownRetry)
		}
		var group []item
		select {
		case group, open = <-i.groups:
		case <-again:
		}
		if len(group) != 0 || again != nil && open {
			i.commit(group)
		}
	}
	if len(i.own) != 0 {
		i.commit(nil)
	}
	for n := range i.own {
		i.drop(&i.own[n])
	}
	i.live.close()
}

// commit stores a group and answers each of its batches.
func (i *Ingest) commit(group []item) {
	group = append(i.own, group...)
	i.own = nil
	batches := make([]archive.Batch, 0, len(group))
	places := make([]int, 0, len(group))
	for n := range group {
		if group[n].err == nil {
			batches, places = append(batches, group[n].batch), append(places, n)
		}
	}
	begun := time.Now()
	var stored []bool
	var rejected map[int]error
	var err error
	if len(batches) != 0 {
		stored, rejected, err = i.options.Archive.Store(context.Background(), batches)
	}
	took := time.Since(begun).Seconds()
	if len(batches) != 0 {
		i.tell(err)
	}
	for n, place := range places {
		switch {
		case err != nil:
			group[place].err = err
		case rejected[n] != nil:
			group[place].err = refusal(rejected[n])
		}
	}
	i.settle(group, places, stored, took)
}

// refusal is the answer to a batch that the archive rejects.
func refusal(reason error) error {
	if archive.Temporary(reason) {
		return reason
	}
	return fmt.Errorf("%w: %w", bus.ErrRejected, reason)
}

// tell logs when the archive stops storing batches and when it resumes, not each of the
// retries in between.
func (i *Ingest) tell(err error) {
	i.mu.Lock()
	before := i.failing
	i.failing = err
	i.mu.Unlock()
	switch {
	case err != nil && before == nil:
		i.options.Log.Error("cannot store batches; agents keep them", "error", err)
	case err == nil && before != nil:
		i.options.Log.Info("batches are stored again")
	}
}

// Failing returns the error of the last commit, or nil.
func (i *Ingest) Failing() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.failing
}

// settle counts and answers the batches of a group, and publishes the new ones.
func (i *Ingest) settle(group []item, places []int, stored []bool, took float64) {
	fresh := map[int]bool{}
	for n, place := range places {
		fresh[place] = group[place].err == nil && n < len(stored) && stored[n]
	}
	i.mu.Lock()
	s := &i.stats
	s.Commits++
	s.CommitSeconds += took
	for n := range group {
		i.bytes -= group[n].size()
		switch it := &group[n]; {
		case fresh[n]:
			s.Batches++
			s.Rows += uint64(it.batch.Record.NumRows())
			s.Implausible += it.implausible
		case it.err == nil:
			s.Duplicates++
		case it.refused():
			s.Rejected++
		case errors.Is(it.err, measure.ErrUnknown):
			s.Unsupported++
		default:
			s.Failed++
		}
	}
	i.changed.Broadcast()
	i.mu.Unlock()
	for n := range group {
		it := &group[n]
		if it.refused() || it.err != nil && archive.Temporary(it.err) {
			i.options.Refused(it.batch.Agent, fmt.Errorf("batch of %q: %w", it.batch.Stream, it.err))
		}
		if it.delivery.Answer != nil {
			it.delivery.Answer(it.err)
		} else if it.done != nil && (it.err == nil || it.refused()) {
			it.done(it.err)
		} else if it.err != nil {
			i.keep(it)
			continue
		}
		if fresh[n] {
			i.live.publish(it.batch)
		}
		if it.batch.Record != nil {
			it.batch.Record.Release()
		}
	}
}

// Stats returns the current counts.
func (i *Ingest) Stats() Stats {
	i.mu.Lock()
	defer i.mu.Unlock()
	s := i.stats
	s.QueueBytes, s.QueueBatches = i.bytes, len(i.queue)
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
	i.closed = true
	i.changed.Broadcast()
	i.mu.Unlock()
	i.ended.Wait()
}
