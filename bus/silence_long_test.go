//go:build long

package bus

import (
	"io"
	"net"
	"sync"
	"testing"
)

// wall forwards TCP connections until it falls silent: then it drops all data without an
// error, as when a host or a path fails.
type wall struct {
	listener net.Listener
	silent   chan struct{}
	copies   sync.WaitGroup
}

func newWall(t *testing.T, to string) *wall {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wall{listener: listener, silent: make(chan struct{})}
	ended := make(chan struct{})
	t.Cleanup(func() { listener.Close(); close(ended); w.copies.Wait() })
	w.copies.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			onward, err := net.Dial("tcp", to)
			if err != nil {
				from.Close()
				continue
			}
			w.copies.Go(func() { w.pass(onward, from) })
			w.copies.Go(func() { w.pass(from, onward) })
			w.copies.Go(func() { <-ended; from.Close(); onward.Close() })
		}
	})
	return w
}

func (w *wall) pass(to io.Writer, from io.Reader) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-w.silent:
			continue
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestLongSilenceEndsBothSides: a host that vanished without closing its connection loses its name to the next one, and
// notices itself that the connection is down.
func TestLongSilenceEndsBothSides(t *testing.T) {
	t.Parallel() // waits for pings
	p := newPKI(t)
	e := startEmbedded(t, p)
	w := newWall(t, e.Addr().String())
	config := p.agent("a")
	vanished, _ := dialAgent(t, "tls://"+w.listener.Addr().String(), "a", config)
	eventually(t, "connects through the wall", vanished.Connected)
	close(w.silent)
	next, c := dialAgent(t, url(e), "a", config)
	eventually(t, "the next is refused first", func() bool { return c.refusal() != nil })
	eventually(t, "the next takes the name", next.Connected)
	eventually(t, "the vanished one notices", func() bool { return !vanished.Connected() })
}
