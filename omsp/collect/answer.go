package collect

import (
	"fmt"
	"net"
	"sync"
	"time"
)

const answerTimeout = 10 * time.Second

// answerer writes to a client what of its tuples is on disk. It never makes the one
// wait who tells it: what is newer replaces what was not written yet.
type answerer struct {
	conn net.Conn

	mu     sync.Mutex
	lines  []string
	kept   map[int]int64
	wake   chan struct{}
	closed bool
	ended  sync.WaitGroup
}

func newAnswerer(conn net.Conn) *answerer {
	a := &answerer{conn: conn, kept: map[int]int64{}, wake: make(chan struct{}, 1)}
	a.ended.Go(a.run)
	return a
}

// line sends a line as it is, before what was stored later.
func (a *answerer) line(text string) {
	a.mu.Lock()
	a.take()
	a.lines = append(a.lines, text)
	a.mu.Unlock()
	a.tell()
}

// stored says that all tuples of a stream up to a number are on disk.
func (a *answerer) stored(stream int, seq int64) {
	a.mu.Lock()
	a.kept[stream] = max(seq, a.kept[stream])
	a.mu.Unlock()
	a.tell()
}

func (a *answerer) tell() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// take turns what was stored into lines.
func (a *answerer) take() {
	for stream, seq := range a.kept {
		a.lines = append(a.lines, fmt.Sprintf("stored %d %d", stream, seq))
	}
	clear(a.kept)
}

func (a *answerer) run() {
	for range a.wake {
		a.mu.Lock()
		a.take()
		lines, closed := a.lines, a.closed
		a.lines = nil
		a.mu.Unlock()
		var text []byte
		for _, line := range lines {
			text = append(append(text, line...), '\n')
		}
		a.conn.SetWriteDeadline(time.Now().Add(answerTimeout))
		if _, err := a.conn.Write(text); err != nil {
			a.conn.Close() // the client will come again
		}
		if closed {
			return
		}
	}
}

// close writes what is left.
func (a *answerer) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.tell()
	a.ended.Wait()
}
