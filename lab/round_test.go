package lab_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
	"pillion.dev/wire/test/codec"
)

// uneven is a link whose directions have different delays: 8 ms for both.
const uneven = `hosts: {a: {}, b: {}}
links:
  - ends: [a, b]
    emulate:
      from: {a: {delay: 5ms}, b: {delay: 3ms}}
`

// roundLine is what a source prints of the round trips of a flow.
type roundLine struct {
	Sport   uint16   `json:"sport"`
	Dport   uint16   `json:"dport"`
	Count   uint64   `json:"count"`
	Refused uint64   `json:"refused"`
	Round   spanLine `json:"rtt_ns"`
	Host    spanLine `json:"host_ns"`
	Network spanLine `json:"network_ns"`
}

type spanLine struct {
	Min  time.Duration `json:"min"`
	Mean time.Duration `json:"mean"`
	Max  time.Duration `json:"max"`
}

// asker asks a server for echoes, one at a time, and has the round trips as it sees them itself.
type asker struct {
	t       *testing.T
	socket  *net.UDPConn
	seen    []time.Duration
	mutex   sync.Mutex
	service []time.Duration // what the server says that it took
}

// served returns how long the server took for each answer.
func (a *asker) served() []time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return slices.Clone(a.service)
}

// ask sends so many questions.
func (a *asker) ask(count int) {
	a.t.Helper()
	buffer := make([]byte, 64)
	for range count {
		began := time.Now()
		if _, err := a.socket.Write([]byte("how long does it take?")); err != nil {
			a.t.Fatal(err)
		}
		_ = a.socket.SetReadDeadline(time.Now().Add(hang.Limit))
		if _, err := a.socket.Read(buffer); err != nil {
			a.t.Fatal(err)
		}
		a.seen = append(a.seen, time.Since(began))
	}
}

// serve answers at an address of b after some time, and notes how long each answer took.
func (b *bed) serve(t *testing.T, at netip.AddrPort, takes time.Duration, answer func(*net.UDPConn, question) error) *asker {
	t.Helper()
	a := &asker{t: t}
	var server *net.UDPConn
	b.do("b", func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return err
		}
		return onSocket(server, func(fd int) error {
			return errors.Join(unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVDSTOPTS, 1),
				stampSocket(fd))
		})
	})
	t.Cleanup(func() { server.Close() })
	b.dial(a, at)
	go func() {
		data, control := make([]byte, 64), make([]byte, 512)
		for {
			n, size, _, from, err := server.ReadMsgUDPAddrPort(data, control)
			if err != nil {
				return
			}
			began := time.Now()
			q := question{data: data[:n], from: from}
			messages, err := unix.ParseSocketControlMessage(control[:size])
			for _, m := range messages {
				if m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_DSTOPTS {
					q.options = m.Data
				}
			}
			q.received, _ = stampOf(messages)
			time.Sleep(takes)
			a.mutex.Lock()
			a.service = append(a.service, time.Since(began))
			a.mutex.Unlock()
			if err := errors.Join(err, answer(server, q)); err != nil {
				t.Errorf("answer: %v", err)
			}
		}
	}()
	return a
}

// dial gives the asker a new port.
func (b *bed) dial(a *asker, to netip.AddrPort) {
	b.do("a", func() (err error) {
		a.socket, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
		return err
	})
	socket := a.socket
	a.t.Cleanup(func() { socket.Close() })
}

// question is what came to a server: the data, the header of destination options before it, and when the kernel received it.
type question struct {
	data, options []byte
	from          netip.AddrPort
	received      time.Time
}

func reply(server *net.UDPConn, q question) error {
	_, err := server.WriteToUDPAddrPort(q.data, q.from)
	return err
}

// onSocket sets an option of a socket.
func onSocket(socket *net.UDPConn, set func(fd int) error) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	return errors.Join(raw.Control(func(fd uintptr) { failed = set(int(fd)) }), failed)
}

// roundTrips adds up what a source printed.
func (p *runningProbe) roundTrips() (sum roundLine) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, r := range p.rounds {
		if sum.Count == 0 {
			sum = r
			continue
		}
		sum.Refused += r.Refused
		for _, into := range []struct{ to, from *spanLine }{{&sum.Round, &r.Round}, {&sum.Host, &r.Host}, {&sum.Network, &r.Network}} {
			into.to.Mean = (into.to.Mean*time.Duration(sum.Count) + into.from.Mean*time.Duration(r.Count)) / time.Duration(sum.Count+r.Count)
			into.to.Min, into.to.Max = min(into.to.Min, into.from.Min), max(into.to.Max, into.from.Max)
		}
		sum.Count += r.Count
	}
	return sum
}

// TestRoundTripIsSplit: within the packets of an ordinary dialogue the source measures how long each answer takes, and
// how much of that is the server's: what the server itself needed, and the emulator's delays in both directions.
func TestRoundTripIsSplit(t *testing.T) {
	const asked, takes, delays = 100, 2 * time.Millisecond, 8 * time.Millisecond
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("000102030405060708090a0b0c0d0e0f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]string{"plain": nil, "tagged": {"--key-file", key}} {
		t.Run(name, func(t *testing.T) {
			b := up(t, uneven)
			var probes []*runningProbe
			for _, host := range []struct{ name, other string }{{"a", "b"}, {"b", "a"}} {
				d := b.probe(host.name, "destination", host.other, options...)
				s := b.probe(host.name, "source", host.other, append([]string{"--encoding", "pdm", "--modules", "loss"}, options...)...)
				probes = append(probes, s, d)
			}
			a := b.serve(t, netip.AddrPortFrom(secondIPv6, 7000), takes, reply)
			a.ask(asked)
			for _, p := range probes {
				p.end(unix.SIGINT)
			}
			got, other := probes[0].roundTrips(), probes[2].roundTrips()
			service := mean(a.served())
			t.Logf("bar: %d round trips of %v = network %v + host %v; the server took %v, the asker saw %v, the emulator delays %v",
				got.Count, got.Round.Mean, got.Network.Mean, got.Host.Mean, service, mean(a.seen), delays)
			if got.Count != asked || got.Refused != 0 {
				t.Errorf("%d round trips of %d, %d refused", got.Count, asked, got.Refused)
			}
			if off := got.Round.Mean - got.Network.Mean - got.Host.Mean; off.Abs() > 10 {
				t.Errorf("%v are not %v + %v", got.Round.Mean, got.Network.Mean, got.Host.Mean)
			}
			if got.Host.Min < takes || got.Host.Mean < service-time.Microsecond {
				t.Errorf("host %+v, the server took %v", got.Host, service)
			}
			if got.Network.Min < delays || got.Round.Mean > mean(a.seen) {
				t.Errorf("network %+v, round trip %v of the %v that the asker saw", got.Network, got.Round.Mean, mean(a.seen))
			}
			// The server's packets are answered by the next question.
			if other.Count != asked-1 || other.Network.Min < delays {
				t.Errorf("the server's round trips: %+v", other)
			}
		})
	}
}

func mean(all []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(1, len(all)))
}

// TestRoundTripWithOthers: a program that knows RFC 8250, but not Pillion, is answered and understood: with a scale of its
// own, and beside options that are padding.
func TestRoundTripWithOthers(t *testing.T) {
	const asked, claimed = 20, time.Millisecond
	b := up(t, uneven)
	s := b.probe("a", "source", "b", "--encoding", "pdm", "--modules", "loss")
	number := uint16(65530)
	a := b.serve(t, netip.AddrPortFrom(secondIPv6, 7000), 2*time.Millisecond, func(server *net.UDPConn, q question) error {
		sent, _, _, err := codec.ParseHeader(q.options)
		if err != nil || sent.PDM == nil {
			return fmt.Errorf("question with options %x: %w", q.options, err)
		}
		number++
		delta := codec.DeltaOf(claimed)
		delta = codec.Delta{Scale: delta.Scale + 3, Value: delta.Value >> 3} // fewer digits
		own := codec.AppendHeader(nil, 0, codec.Header{PDM: &codec.PDM{Number: number, Echo: codec.Echo{Last: sent.PDM.Number, LastReceived: delta}}})
		header := slices.Concat([]byte{0, 2, 1, 2, 0, 0}, own[2:14], []byte{1, 4, 0, 0, 0, 0})
		if err := onSocket(server, func(fd int) error {
			return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_DSTOPTS, string(header))
		}); err != nil {
			return err
		}
		return reply(server, q)
	})
	a.ask(asked)
	s.end(unix.SIGINT)
	got := s.roundTrips()
	t.Logf("bar: %+v", got)
	if got.Count != asked || got.Refused != 0 || got.Host.Max > claimed || got.Host.Min < claimed-claimed/4096 {
		t.Errorf("round trips %+v, the host claims %v", got, claimed)
	}
}

// TestRoundTripInSession: a session with the module round-trip, authenticated as usual, has the round trips of both directions in
// round_trips beside the loss that it counts in the same marks.
func TestRoundTripInSession(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, `
hosts: {a: {}, b: {}, noc: {}}
links:
  - ends: [a, b]
    emulate:
      from: {a: {delay: 5ms}, b: {delay: 3ms}}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
service: {server: noc, agents: [a, b]}
`)
	const asked, takes, delays = 50, 2 * time.Millisecond, 8 * time.Millisecond
	if said, err := b.tryPillion("session", "create", "--dry-run", "--name", "x", "--from", "a", "--to", "b", "--modules", "loss,round-trip", "--encoding", "native", "--both"); err == nil {
		t.Errorf("a session with marks without an echo is accepted:\n%s", said)
	}
	b.running("s", "--from", "a", "--to", "b", "--both", "--family", "ipv6", "--modules", "loss,round-trip", "--encoding", "pdm,native",
		"--trace=-1s", "--interval", "200ms")
	a := b.serve(t, netip.AddrPortFrom(secondIPv6, 7000), takes, reply)
	a.ask(asked)
	b.reaches(asked, "SELECT sum(count) FROM round_trips WHERE session = 's' AND agent = 'a' AND peer = 'b' AND dport = 7000")
	b.reaches(asked-1, "SELECT sum(count) FROM round_trips WHERE session = 's' AND agent = 'b' AND peer = 'a' AND sport = 7000")
	// The first packet of a flow in PDM is no number before which anything could be lost.
	b.reaches(2*asked, "SELECT sum(expected) FROM flows WHERE session = 's' AND 7000 IN (sport, dport)")
	if n := b.number("SELECT sum(lost + duplicated + reordered) FROM flows WHERE session = 's'") + b.number("SELECT sum(refused) FROM round_trips"); n != 0 {
		t.Errorf("%d packets lost, duplicated, reordered or refused", n)
	}
	mean := func(column string) time.Duration {
		return time.Duration(b.number("SELECT (sum(%s * count) / sum(count))::BIGINT FROM round_trips WHERE agent = 'a' AND dport = 7000", column))
	}
	round, host, network := mean("rtt_mean_ns"), mean("host_mean_ns"), mean("network_mean_ns")
	t.Logf("bar: %v = network %v + host %v; the emulator delays %v", round, network, host, delays)
	if host < takes || network < delays || (round-host-network).Abs() > time.Microsecond {
		t.Errorf("%v = network %v + host %v, of which the server takes %v and the emulator %v", round, network, host, takes, delays)
	}
}
