package ingest

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/measure"
)

// Live hands stored batches to watchers. It never waits for one.
type Live struct {
	mu       sync.Mutex
	watchers map[*Watcher]bool
	lost     atomic.Uint64
	ended    bool
}

// Batch is a stored batch. Its Record belongs to whoever received it, who releases
// it.
type Batch struct {
	Agent  string
	Schema *measure.Schema
	Record arrow.RecordBatch
}

// Watcher receives batches at C until Close, or until the server stops, when C is
// closed.
type Watcher struct {
	C       <-chan Batch
	c       chan Batch
	streams []string
	live    *Live
	rows    atomic.Uint64
}

func newLive() *Live { return &Live{watchers: map[*Watcher]bool{}} }

// Watch begins with the next batch of one of the streams, or of any if none is
// named. A watcher for which more than buffer batches wait loses the newest.
func (l *Live) Watch(streams []string, buffer int) *Watcher {
	w := &Watcher{c: make(chan Batch, max(buffer, 1)), streams: streams, live: l}
	w.C = w.c
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		close(w.c)
		return w
	}
	l.watchers[w] = true
	return w
}

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
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.watchers {
		if len(w.streams) != 0 && !slices.Contains(w.streams, batch.Schema.Name) {
			continue
		}
		batch.Record.Retain()
		select {
		case w.c <- Batch{Agent: batch.Agent, Schema: batch.Schema, Record: batch.Record}:
		default:
			batch.Record.Release()
			w.rows.Add(uint64(batch.Record.NumRows()))
			l.lost.Add(1)
		}
	}
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
