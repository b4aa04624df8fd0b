package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/test/namespace"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
)

// far is a listener on loopback and a header to it.
func far(t *testing.T) (net.Listener, *frame.Header) {
	t.Helper()
	namespace.NeedRoot(t) // to bind to a device
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	to := l.Addr().(*net.TCPAddr).AddrPort()
	return l, &frame.Header{Source: netip.MustParseAddr("127.0.0.1"), Destination: to.Addr(), DestinationPort: to.Port(), TrafficClass: 46 << 2, HopLimit: 3}
}

// TestSend: every write of two flows arrives, none before its time, and those of no flow or of
// an invalid size fail.
func TestSend(t *testing.T) {
	l, h := far(t)
	accepting := counted{l, make(chan struct{}, 2)}
	received := make(chan error)
	const writes, size = 50, 3000
	go func() {
		connections, bytes, err := Discard(t.Context(), accepting)
		if connections != 2 || bytes != 2*writes*size {
			err = fmt.Errorf("%d bytes of %d connections, %v", bytes, connections, err)
		}
		received <- err
	}()
	s, err := Open(t.Context(), nil, "lo", map[string]*frame.Header{"": h, "2": h}, false)
	if err != nil {
		t.Fatal(err)
	}
	packets := func(yield func(schedule.Entry, error) bool) {
		for i := range writes {
			due := time.Duration(i) * 100 * time.Microsecond
			if !yield(schedule.Entry{Due: due, Number: uint32(i), Size: size}, nil) || !yield(schedule.Entry{Due: due, Train: 1, Number: uint32(i), Size: size, Flow: "2"}, nil) {
				return
			}
		}
		_ = yield(schedule.Entry{Due: time.Second, Size: size, Flow: "none"}, nil) && yield(schedule.Entry{Due: time.Second, Size: MaxBytes + 1}, nil)
	}
	sent, failed, last := 0, 0, map[uint32]int64{}
	err = s.Send(t.Context(), time.Millisecond, packets, func(r dispatch.Record) {
		switch {
		case r.Fate == dispatch.Failed && r.Error != nil:
			failed++
		case r.Fate != dispatch.Sent || r.Handed < r.Intended || r.Handed < last[r.Train] || r.Bytes != size:
			t.Errorf("%+v", r)
		default:
			sent++
			last[r.Train] = r.Handed
		}
	})
	if err != nil || sent != 2*writes || failed != 2 {
		t.Errorf("sent %d, failed %d, %v", sent, failed, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		<-accepting.accepted
	}
	l.Close() // what was accepted is read to its end
	if err := <-received; err != nil {
		t.Error(err)
	}
}

// counted says when connections are accepted.
type counted struct {
	net.Listener
	accepted chan struct{}
}

func (c counted) Accept() (net.Conn, error) {
	connection, err := c.Listener.Accept()
	if err == nil {
		c.accepted <- struct{}{}
	}
	return connection, err
}

// TestCancelled: a write that waits for a peer that does not read ends with the context, and the
// account is closed.
func TestCancelled(t *testing.T) {
	_, h := far(t) // which accepts nothing: the buffers fill
	s, err := Open(t.Context(), nil, "lo", map[string]*frame.Header{"": h}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var drawn, reported int
	packets := func(yield func(schedule.Entry, error) bool) {
		for i := range 100_000 {
			if drawn++; !yield(schedule.Entry{Number: uint32(i), Size: MaxBytes}, nil) {
				return
			}
			if i == ahead { // more than the queue holds: the first is being written
				cancel()
			}
		}
	}
	err = s.Send(ctx, 0, packets, func(r dispatch.Record) {
		reported++
		if r.Fate == dispatch.Failed && !errors.Is(r.Error, errClosed) {
			t.Errorf("%+v", r)
		}
	})
	if !errors.Is(err, context.Canceled) || reported != drawn-1 {
		t.Errorf("%d of %d reported, %v", reported, drawn, err)
	}
}

// TestRefused: a port that is closed is named with the cause.
func TestRefused(t *testing.T) {
	l, h := far(t)
	l.Close()
	if _, err := Open(t.Context(), nil, "lo", map[string]*frame.Header{"": h}, false); !errors.Is(err, ErrConnect) || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
}
