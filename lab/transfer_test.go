package lab_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// stallTime is more than any transfer pauses, also on a busy machine.
const stallTime = 3 * time.Minute

// transfer is a TCP connection that carries pseudo-random bytes, hashed at both
// ends: no offload, mark or loss may change them.
type transfer struct {
	t       testing.TB
	size    int64
	carried atomic.Int64
	every   time.Duration // between two writes, if not zero
	pause   atomic.Int64  // longest time between two reads, ns
	last    chan struct{} // closed when the sender may end
	result  chan error
}

// carry starts a transfer of size bytes from one host to an address of another. It goes
// beyond that size if it reaches it before finish is called, so that a test that is slow
// never meets its end.
func (b *bed) carry(from, to string, address netip.Addr, size int64) *transfer {
	b.t.Helper()
	return b.carryOver(from, to, address, size, net.ListenConfig{}, net.Dialer{})
}

// carryOver is carry over a connection of a certain kind.
func (b *bed) carryOver(from, to string, address netip.Addr, size int64, at net.ListenConfig, by net.Dialer) *transfer {
	b.t.Helper()
	x := &transfer{t: b.t, size: size, last: make(chan struct{}), result: make(chan error, 2)}
	b.begin(x, from, to, address, at, by)
	return x
}

// drip starts a transfer that has something to send every few milliseconds, so that the
// receiver notices each pause. It ends with finish.
func (b *bed) drip(from, to string, address netip.Addr) *transfer {
	b.t.Helper()
	x := &transfer{t: b.t, every: 5 * time.Millisecond, last: make(chan struct{}), result: make(chan error, 2)}
	b.begin(x, from, to, address, net.ListenConfig{}, net.Dialer{})
	return x
}

func (b *bed) begin(x *transfer, from, to string, address netip.Addr, at net.ListenConfig, by net.Dialer) {
	b.t.Helper()
	var listener net.Listener
	b.do(to, func() (err error) {
		listener, err = at.Listen(b.t.Context(), "tcp", netip.AddrPortFrom(address, 0).String())
		return err
	})
	sums := make(chan [sha256.Size]byte, 2)
	b.t.Cleanup(func() { listener.Close() })
	go func() { x.result <- x.receive(listener, sums) }()
	var out net.Conn
	b.do(from, func() (err error) {
		ctx, stop := context.WithTimeout(b.t.Context(), hang.Limit)
		defer stop()
		out, err = by.DialContext(ctx, "tcp", listener.Addr().String())
		return err
	})
	b.t.Cleanup(func() { out.Close() })
	go func() { x.result <- x.send(out, sums) }()
}

func (x *transfer) send(out net.Conn, sums chan<- [sha256.Size]byte) error {
	defer out.Close()
	hash := sha256.New()
	content := rand.NewChaCha8([32]byte{1})
	buffer := make([]byte, 1<<18)
	if x.every != 0 {
		buffer = buffer[:16<<10]
	}
	for x.continues() {
		time.Sleep(x.every)
		part := buffer
		if left := x.size - x.carried.Load(); left > 0 && left < int64(len(part)) {
			part = part[:left]
		}
		content.Read(part)
		hash.Write(part)
		_ = out.SetDeadline(time.Now().Add(stallTime))
		if _, err := out.Write(part); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		x.carried.Add(int64(len(part)))
	}
	sums <- [sha256.Size]byte(hash.Sum(nil))
	return nil
}

func (x *transfer) continues() bool {
	select {
	case <-x.last:
		return x.carried.Load() < x.size
	default:
		return true
	}
}

func (x *transfer) receive(listener net.Listener, sums <-chan [sha256.Size]byte) error {
	in, err := listener.Accept()
	if err != nil {
		return err
	}
	defer in.Close()
	now := time.Now()
	_ = in.SetDeadline(now.Add(stallTime))
	hash := sha256.New()
	n, err := io.Copy(&pauses{Writer: hash, in: in, longest: &x.pause, last: now}, in)
	if err != nil {
		return fmt.Errorf("received %d bytes: %w", n, err)
	}
	if sent := <-sums; !bytes.Equal(hash.Sum(nil), sent[:]) {
		return fmt.Errorf("received %d bytes that differ from those sent", n)
	}
	return nil
}

// pauses finds the longest time between two writes of what a connection received, and gives it
// as long for the next one as for the first.
type pauses struct {
	io.Writer
	in      net.Conn
	longest *atomic.Int64 // ns
	last    time.Time
}

func (p *pauses) Write(part []byte) (int, error) {
	now := time.Now()
	if pause := int64(now.Sub(p.last)); pause > p.longest.Load() {
		p.longest.Store(pause)
	}
	p.last = now
	_ = p.in.SetDeadline(now.Add(stallTime))
	return p.Writer.Write(part)
}

// midway waits until the transfer has made progress.
func (x *transfer) midway() {
	x.t.Helper()
	before := x.carried.Load()
	eventually(x.t, "the transfer to continue", func() bool { return x.carried.Load() > before+1<<20 })
}

// carried waits until so many bytes have been handed to these connections together. How long that
// takes is the machine's affair, as long as they carry something.
func carried(t testing.TB, transfers []*transfer, size int64) {
	t.Helper()
	for total := int64(0); total < size; {
		before := total
		eventually(t, fmt.Sprintf("transfers to continue after %d of %d bytes", before, size), func() bool {
			total = 0
			for _, x := range transfers {
				total += x.carried.Load()
			}
			return total > before
		})
	}
}

// finish lets the transfer end, and waits until both sides have.
func (x *transfer) finish() {
	x.t.Helper()
	close(x.last)
	for range 2 {
		if err := <-x.result; err != nil {
			x.t.Fatal(err)
		}
	}
}

// datagrams sends UDP packets of a size and expects every byte of each.
func (b *bed) datagrams(from, to string, address netip.Addr, count, size int) {
	b.t.Helper()
	s := b.open(from, to, netip.AddrPortFrom(address, 0))
	defer s.in.Close()
	defer s.out.Close()
	s.exchange(count, size)
}

// exchange sends packets of a size, each when the one before has arrived with every byte.
func (s *stream) exchange(count, size int) {
	s.t.Helper()
	content := rand.NewChaCha8([32]byte{2})
	sent, got := make([]byte, size), make([]byte, 1<<16)
	for n := range count {
		content.Read(sent)
		if _, err := s.out.Write(sent); err != nil {
			s.t.Fatalf("send packet %d: %v", n, err)
		}
		_ = s.in.SetReadDeadline(time.Now().Add(hang.Limit))
		m, err := s.in.Read(got)
		if err != nil {
			s.t.Fatalf("receive packet %d of %d bytes: %v", n, size, err)
		}
		if !bytes.Equal(got[:m], sent) {
			s.t.Fatalf("packet %d: received %d other bytes than the %d that were sent", n, m, size)
		}
	}
}
