package collect

import (
	"fmt"
	"net"
	"sync"
	"time"
)

const answerTimeout = 10 * time.Second

// answerer sends a client acknowledgements of tuples on disk. Its callers never block:
// a newer acknowledgement replaces one that is not yet written.
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

// line sends a line, before later acknowledgements.
func (a *answerer) line(text string) {
	a.mu.Lock()
	a.take()
	a.lines = append(a.lines, text)
	a.mu.Unlock()
	a.tell()
}

// stored acknowledges all tuples of a stream up to a sequence number.
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

// take formats pending acknowledgements.
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
			a.conn.Close() // the client reconnects
		}
		if closed {
			return
		}
	}
}

// close writes pending lines.
func (a *answerer) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.tell()
	a.ended.Wait()
}
