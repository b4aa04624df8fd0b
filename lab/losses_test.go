package lab_test

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"pillion.dev/lab/emulator"
)

// suffers changes what the link does to packets of a.
func (b *serviceBed) suffers(loss float64) {
	b.t.Helper()
	share := emulator.Fraction(loss)
	if err := b.Change(b.t.Context(), "a-b", "a", emulator.Change{Loss: &share}); err != nil {
		b.t.Fatal(err)
	}
}

// short sends flows of one to three datagrams, each from a port of its own.
func (b *serviceBed) short(to netip.AddrPort, flows int) (sent int) {
	b.t.Helper()
	b.do("a", func() error {
		for i := range flows {
			out, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
			if err != nil {
				return err
			}
			for range 1 + i%3 {
				if _, err := out.Write(make([]byte, 100)); err != nil {
					return err
				}
				sent++
			}
			out.Close()
			if i%20 == 0 {
				time.Sleep(time.Millisecond) // the link's queue is finite
			}
		}
		return nil
	})
	return sent
}

// toPort adds up what the emulator did to packets of a to a port; marked: of those with a mark.
func (b *serviceBed) toPort(port uint16, marked bool) (sum emulator.Flow) {
	b.t.Helper()
	for _, f := range b.quiet("a-b", "a").Flows {
		if f.Protocol == 17 && f.DestinationPort == port && (f.Marked || !marked) {
			sum.Offered += f.Offered
			sum.Lost += f.Lost
			sum.Duplicated += f.Duplicated
		}
	}
	return sum
}

// accounts waits until the rows of a port say of each packet what became of it.
func (b *serviceBed) accounts(port uint16, truth emulator.Flow) {
	b.t.Helper()
	from := fmt.Sprintf("FROM flows WHERE dport = %d", port)
	b.reaches(int64(truth.Offered), "SELECT sum(expected) %s", from)
	b.reaches(int64(truth.Lost), "SELECT sum(lost) %s", from)
	b.reaches(int64(truth.Duplicated), "SELECT sum(duplicated) %s", from)
	b.t.Logf("port %d: %d offered, %d lost, %d duplicated: all in rows", port, truth.Offered, truth.Lost, truth.Duplicated)
}

// outage loses everything for a while, in the middle of a flow.
func (b *serviceBed) outage(port uint16) {
	b.t.Helper()
	before := b.toPort(port, false)
	b.suffers(0)
	flow := b.openBound("a", netip.AddrPortFrom(secondIPv6, port))
	flow.send(100, 1000)
	b.suffers(1)
	began := time.Now()
	flow.send(500, 200) // 2.5 s
	b.atLeast(int64(before.Lost)+1, "SELECT sum(lost) FROM flows WHERE dport = %d", port)
	b.t.Logf("losses are in rows %v after everything began to be lost", time.Since(began).Round(100*time.Millisecond))
	flow.send(200, 200)
	b.suffers(0)
	flow.send(100, 1000)
	truth := b.toPort(port, false)
	if truth.Lost < before.Lost+100 {
		b.t.Errorf("truth %+v after %+v", truth, before)
	}
	b.accounts(port, truth)
}

// listens receives datagrams at a port of a host, and does nothing with them.
func (b *serviceBed) listens(host string, port uint16) {
	b.t.Helper()
	b.do(host, func() error {
		in, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
		if err == nil {
			b.t.Cleanup(func() { in.Close() })
		}
		return err
	})
}

// openBound is open where somebody listens already.
func (b *serviceBed) openBound(from string, to netip.AddrPort) *stream {
	b.t.Helper()
	s := &stream{t: b.t}
	b.do(from, func() (err error) {
		s.out, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		return err
	})
	b.t.Cleanup(func() { s.out.Close() })
	return s
}
