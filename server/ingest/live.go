package ingest

import (
	"slices"
	"sync"
	"sync/atomic"

	"pillion.dev/archive"
)

// Live publishes stored batches to watchers: batches that this server has stored, and batches of the other
// servers of its fleet. It never waits for watchers.
type Live struct {
	mu       sync.Mutex
	watchers map[*Watcher]bool
	lost     atomic.Uint64
	ended    bool
}

// Watcher receives stored batches until Close.
type Watcher struct {
	c       chan archive.Batch
	streams []string
	takes   origin
	live    *Live
	rows    atomic.Uint64
	// sizes are the sizes of the batches in c, bytes, oldest first, possibly preceded by others.
	sizes []int64
}

// watcherBytes limits the backlog of one watcher, unless it is a single batch.
const watcherBytes = 16 << 20

// origin is who has stored a batch.
type origin int

const (
	own origin = 1 << iota
	others
)

// hasRoom reports whether the backlog has room for a batch of that size.
func (w *Watcher) hasRoom(size int64) bool {
	w.sizes = w.sizes[max(0, len(w.sizes)-len(w.c)):]
	waiting := int64(0)
	for _, one := range w.sizes {
		waiting += one
	}
	return len(w.sizes) == 0 || waiting+size <= watcherBytes
}

func newLive() *Live { return &Live{watchers: map[*Watcher]bool{}} }

// Watch subscribes to streams, or to all if none is named, from the next batch on, whichever server has
// stored it. A watcher with a backlog of more than buffer batches, or too many bytes, misses the newest.
func (l *Live) Watch(streams []string, buffer int) *Watcher {
	return l.watch(streams, buffer, own|others)
}

// WatchOwn is Watch for what this server has stored: each batch has one such watcher in a fleet.
func (l *Live) WatchOwn(streams []string, buffer int) *Watcher {
	return l.watch(streams, buffer, own)
}

// WatchOthers is Watch for what the other servers have stored.
func (l *Live) WatchOthers(streams []string, buffer int) *Watcher {
	return l.watch(streams, buffer, others)
}

func (l *Live) watch(streams []string, buffer int, takes origin) *Watcher {
	w := &Watcher{c: make(chan archive.Batch, max(buffer, 1)), streams: streams, takes: takes, live: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		close(w.c)
		return w
	}
	l.watchers[w] = true
	return w
}

// EveryStream among the wanted streams stands for all.
const EveryStream = "*"

// Wanted are the streams of which some watcher takes what other servers have stored.
func (l *Live) Wanted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for w := range l.watchers {
		switch {
		case w.takes&others == 0:
		case len(w.streams) == 0:
			all = append(all, EveryStream)
		default:
			all = append(all, w.streams...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Batches is closed when the server stops. The receiver releases each record.
func (w *Watcher) Batches() <-chan archive.Batch { return w.c }

// Missed returns the number of rows that this watcher missed.
func (w *Watcher) Missed() uint64 { return w.rows.Load() }

// Close ends the subscription.
func (w *Watcher) Close() {
	w.live.mu.Lock()
	if w.live.watchers[w] {
		delete(w.live.watchers, w)
		close(w.c)
	}
	w.live.mu.Unlock()
	for batch := range w.c {
		batch.Record.Release()
	}
}

// Receive publishes a batch that another server has stored. It stays the caller's.
func (l *Live) Receive(batch archive.Batch) { l.pass(batch, others) }

// publish publishes a batch that this server has stored.
func (l *Live) publish(batch archive.Batch) { l.pass(batch, own) }

func (l *Live) pass(batch archive.Batch, from origin) {
	size := recordBytes(batch.Record)
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watchers {
		if w.takes&from == 0 || len(w.streams) != 0 && !slices.Contains(w.streams, batch.Schema.Name) {
			continue
		}
		if !w.hasRoom(size) {
			w.miss(batch)
			continue
		}
		batch.Record.Retain()
		select {
		case w.c <- batch:
			w.sizes = append(w.sizes, size)
		default:
			batch.Record.Release()
			w.miss(batch)
		}
	}
}

func (w *Watcher) miss(batch archive.Batch) {
	w.rows.Add(uint64(batch.Record.NumRows()))
	w.live.lost.Add(1)
}

func (l *Live) missed() uint64 { return l.lost.Load() }

func (l *Live) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for w := range l.watchers {
		delete(l.watchers, w)
		close(w.c)
	}
}
