//go:build long

package lab_test

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/figure"
	"pillion.dev/internal/test/hang"
)

// dialogue is one question and its answer in the clock of both kernels: when each was given to the driver, and when
// the other kernel received it.
type dialogue struct {
	asked, questioned, answered, received time.Time
}

// TestLongRoundTripAgrees: each round trip, its host part and its network part agree with the times that both kernels
// say for the question and the answer, and exceed what the emulator did to them: it does not count how long
// a frame waits for it. Each round trip is a flow of its own, so that it has a row and a truth of its own.
func TestLongRoundTripAgrees(t *testing.T) {
	const count, takes = 600, 2 * time.Millisecond
	b := up(t, uneven)
	var probes []*runningProbe
	for _, host := range []struct{ name, other string }{{"a", "b"}, {"b", "a"}} {
		probes = append(probes, b.probe(host.name, "destination", host.other))
		probes = append(probes, b.probe(host.name, "source", host.other, "--encoding", "pdm", "--modules", "loss"))
	}
	// With cold caches, 30 us pass between the times of one packet that are compared.
	there := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 7001)).traffic(2000)
	back := b.open("b", "a", netip.AddrPortFrom(firstIPv6, 7001)).traffic(2000)
	dialogues := b.converse(t, count, takes)
	there()
	back()
	for _, p := range probes {
		p.end(unix.SIGINT)
	}
	emulated := map[uint16]time.Duration{} // both ways
	for _, f := range append(b.truth("a-b", "a").Flows, b.truth("a-b", "b").Flows...) {
		emulated[max(f.SourcePort, f.DestinationPort)] += time.Duration(f.Delay.Min)
	}
	off := map[string][]time.Duration{}
	for _, r := range probes[1].rounds {
		d := dialogues[r.Sport]
		if r.Count != 1 || r.Refused != 0 || r.Network.Min < emulated[r.Sport] {
			t.Errorf("round trips of port %d: %+v, the emulator delays %v", r.Sport, r, emulated[r.Sport])
		}
		round, host := d.received.Sub(d.asked), d.answered.Sub(d.questioned)
		off["round trip"] = append(off["round trip"], r.Round.Mean-round)
		off["host part"] = append(off["host part"], r.Host.Mean-host)
		off["network part"] = append(off["network part"], r.Network.Mean-(round-host))
		off["emulator"] = append(off["emulator"], emulated[r.Sport]-(round-host))
	}
	for part, bound := range map[string]time.Duration{
		"round trip": 60 * time.Microsecond, "host part": 30 * time.Microsecond, "network part": 60 * time.Microsecond,
		"emulator": time.Millisecond, // on an idle machine it is less than 0.1 ms
	} {
		all := off[part]
		if len(all) != count {
			t.Fatalf("%d of %d round trips", len(all), count)
		}
		slices.Sort(all)
		median := all[count/2]
		t.Logf("%s less the kernels' times: median %v of %v; p1 %v, p99 %v", part, median, bound, all[count/100], all[count*99/100])
		figure.AtMost(t, part+" less the kernels' times, median", microseconds(median), microseconds(bound), "µs")
	}
}

// converse lets a ask a server at b, each time from another port, and returns the dialogues by that port.
func (b *bed) converse(t *testing.T, count int, takes time.Duration) map[uint16]dialogue {
	t.Helper()
	var mutex sync.Mutex
	dialogues := map[uint16]dialogue{}
	server := netip.AddrPortFrom(secondIPv6, 7000)
	a := b.serve(t, server, takes, func(socket *net.UDPConn, q question) error {
		answered, err := sendStamped(socket, q.data, q.from)
		mutex.Lock()
		defer mutex.Unlock()
		dialogues[q.from.Port()] = dialogue{questioned: q.received, answered: answered}
		return err
	})
	data, control := make([]byte, 64), make([]byte, 512)
	for range count {
		b.dial(a, server)
		if err := onSocket(a.socket, stampSocket); err != nil {
			t.Fatal(err)
		}
		asked, err := sendStamped(a.socket, []byte("how long does it take?"), netip.AddrPort{})
		if err != nil {
			t.Fatal(err)
		}
		_ = a.socket.SetReadDeadline(time.Now().Add(hang.Limit))
		_, size, _, _, err := a.socket.ReadMsgUDPAddrPort(data, control)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := unix.ParseSocketControlMessage(control[:size])
		if err != nil {
			t.Fatal(err)
		}
		mutex.Lock()
		port := a.socket.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		d := dialogues[port]
		d.asked = asked
		d.received, _ = stampOf(messages)
		dialogues[port] = d
		mutex.Unlock()
	}
	return dialogues
}
