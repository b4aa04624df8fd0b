package lab_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"pillion.dev/lab/emulator"
)

// steady is an application from host a to host b that sends continuously: a few UDP flows
// whose receivers check every byte. A packet whose mark was not removed does not reach
// them: IPv4 marks are in front of the UDP header.
type steady struct {
	b        *serviceBed
	flows    []*steadyFlow
	stopping chan struct{}
	sending  sync.WaitGroup
	reading  sync.WaitGroup
	sent     atomic.Uint64 // packets per flow
	received atomic.Uint64 // packets of all flows, including duplicates
	broken   atomic.Uint64 // packets with modified content
	failed   atomic.Pointer[error]
}

type steadyFlow struct {
	in, out *net.UDPConn
	latest  atomic.Uint64 // highest number received
}

const (
	steadyEvery = 5 * time.Millisecond // per flow
	steadyBytes = 200
)

// steady starts an application with a number of flows to ports from 9000 on.
func (b *serviceBed) steady(to netip.Addr, flows int) *steady {
	b.t.Helper()
	s := &steady{b: b, stopping: make(chan struct{})}
	for i := range flows {
		pair := b.open("a", "b", netip.AddrPortFrom(to, uint16(9000+i)))
		f := &steadyFlow{in: pair.in, out: pair.out}
		s.flows = append(s.flows, f)
		s.reading.Go(func() { s.read(f) })
	}
	s.sending.Go(s.send)
	b.t.Cleanup(func() { // it may have ended before
		s.stop()
		for _, f := range s.flows {
			f.in.Close()
		}
		s.reading.Wait()
	})
	return s
}

// content returns the payload of packet n.
func content(payload []byte, n uint64) {
	binary.BigEndian.PutUint64(payload, n)
	for i := 8; i < len(payload); i++ {
		payload[i] = byte(n*31 + uint64(i)*7)
	}
}

func (s *steady) send() {
	ticks := time.NewTicker(steadyEvery)
	defer ticks.Stop()
	payload := make([]byte, steadyBytes)
	for n := uint64(1); ; n++ {
		select {
		case <-s.stopping:
			return
		case <-ticks.C:
		}
		content(payload, n)
		for _, f := range s.flows {
			if _, err := f.out.Write(payload); err != nil {
				err = fmt.Errorf("send packet %d: %w", n, err)
				s.failed.Store(&err)
				return
			}
		}
		s.sent.Store(n)
	}
}

func (s *steady) read(f *steadyFlow) {
	payload, want := make([]byte, 2048), make([]byte, steadyBytes)
	for {
		length, err := f.in.Read(payload)
		if err != nil {
			return // it was closed
		}
		if length != steadyBytes {
			s.broken.Add(1)
			continue
		}
		n := binary.BigEndian.Uint64(payload)
		if content(want, n); !bytes.Equal(payload[:length], want) {
			s.broken.Add(1)
		}
		f.latest.Store(max(n, f.latest.Load()))
		s.received.Add(1)
	}
}

// passes waits until count more packets of each flow were sent and received.
func (s *steady) passes(count uint64) {
	s.b.t.Helper()
	next := s.sent.Load() + count
	eventually(s.b.t, fmt.Sprintf("packet %d of the application to arrive", next), func() bool {
		if err := s.failed.Load(); err != nil {
			s.b.t.Fatal(*err)
		}
		for _, f := range s.flows {
			if f.latest.Load() < next {
				return false
			}
		}
		return true
	})
}

// some is the number of packets that shows whether marking continues.
const some = 40

// marked returns how many marked packets were on the wire.
func (s *steady) marked() uint64 {
	s.b.t.Helper()
	return s.b.truth("a-b", "a").Marked.Offered
}

// unmarked checks that no packet is marked while some pass, and returns how many were
// before.
func (s *steady) unmarked() uint64 {
	s.b.t.Helper()
	before := s.marked()
	s.passes(some)
	if after := s.marked(); after != before {
		s.b.t.Errorf("%d packets were marked although marking should have stopped", after-before)
	}
	return before
}

// marks waits until packets are marked.
func (s *steady) marks() {
	s.b.t.Helper()
	before := s.marked()
	eventually(s.b.t, "packets to be marked", func() bool { return s.marked() >= before+some })
}

// fallsSilent waits until no more packets are marked.
func (s *steady) fallsSilent() {
	s.b.t.Helper()
	eventually(s.b.t, "marking to end", func() bool {
		before := s.marked()
		s.passes(some)
		return s.marked() == before
	})
}

func (s *steady) stop() {
	select {
	case <-s.stopping:
	default:
		close(s.stopping)
	}
	s.sending.Wait()
}

// end stops the application and checks that it received exactly what the link delivered,
// unchanged. It returns the truth of the packets from a.
func (s *steady) end() emulator.Direction {
	t := s.b.t
	t.Helper()
	s.stop()
	offered := s.sent.Load() * uint64(len(s.flows))
	truth := s.b.settled("a-b", "a", offered)
	if truth.Unread != 0 {
		t.Fatalf("the emulator did not read %d frames: there is no truth", truth.Unread)
	}
	if truth.Total.Offered != offered {
		t.Errorf("the application sent %d packets, %d were on the wire", offered, truth.Total.Offered)
	}
	want := truth.Total.Delivered + truth.Total.Duplicated
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("application: sent %d, link delivered %d, received %d, broken %d; marked %+v",
				offered, want, s.received.Load(), s.broken.Load(), truth.Marked)
		}
	})
	eventually(t, "the application to receive what the link delivered", func() bool { return s.received.Load() >= want })
	if got := s.received.Load(); got != want {
		t.Errorf("the link delivered %d packets, the application received %d", want, got)
	}
	if n := s.broken.Load(); n != 0 {
		t.Errorf("%d packets were modified", n)
	}
	return truth
}

// came returns how many marked packets a destination had to read.
func came(truth emulator.Direction) int64 {
	return int64(truth.Marked.Delivered + truth.Marked.Duplicated)
}

// stopped stops a session and waits until it has ended.
func (b *serviceBed) stopped(name string) {
	b.t.Helper()
	b.pillion("session", "stop", name)
	b.becomes(name, "ended")
}

// becomes waits until a session is in a state.
func (b *serviceBed) becomes(name, state string) {
	b.t.Helper()
	found := ""
	b.t.Cleanup(func() {
		if found != state {
			b.t.Logf("session %s was %s", name, found)
		}
	})
	eventually(b.t, "session "+name+" to be "+state, func() bool {
		found = b.sessionState(name)
		return found == state
	})
}
