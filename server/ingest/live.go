package ingest

import (
	"slices"
	"sync"
	"sync/atomic"

	"pillion.dev/archive"
)

// Live hands stored batches to watchers. It never waits for one.
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
	live    *Live
	rows    atomic.Uint64
	// sizes are those of the batches in c, oldest first, and maybe of some before.
	sizes []int64
}

// watcherBytes is how much may wait for one watcher, or one batch.
const watcherBytes = 16 << 20

// takes reports whether a batch of that size may wait too.
func (w *Watcher) takes(size int64) bool {
	w.sizes = w.sizes[max(0, len(w.sizes)-len(w.c)):]
	waiting := int64(0)
	for _, one := range w.sizes {
		waiting += one
	}
	return len(w.sizes) == 0 || waiting+size <= watcherBytes
}

func newLive() *Live { return &Live{watchers: map[*Watcher]bool{}} }

// Watch begins with the next batch of one of the streams, or of any if none is
// named. A watcher for which more than buffer batches wait, or too many bytes, loses
// the newest.
func (l *Live) Watch(streams []string, buffer int) *Watcher {
	w := &Watcher{c: make(chan archive.Batch, max(buffer, 1)), streams: streams, live: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		close(w.c)
		return w
	}
	l.watchers[w] = true
	return w
}

// Batches is closed when the server stops. Each record belongs to whoever received
// it, who releases it.
func (w *Watcher) Batches() <-chan archive.Batch { return w.c }

// Missed is how many rows this watcher has lost.
func (w *Watcher) Missed() uint64 { return w.rows.Load() }

// Close ends the watching.
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

func (l *Live) publish(batch archive.Batch) {
	size := recordBytes(batch.Record)
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watchers {
		if len(w.streams) != 0 && !slices.Contains(w.streams, batch.Schema.Name) {
			continue
		}
		if !w.takes(size) {
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
