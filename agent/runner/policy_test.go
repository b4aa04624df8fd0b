package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/probe/source"
	"pillion.dev/session"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
	"pillion.dev/wire/test/codec"
)

// portSession has packets to a port marked in its own way.
type portSession struct {
	name, encoding string
	modules        []string
	every          uint32
	port           uint16
	flow           fivetuple.Fields
}

func (p portSession) source() session.SourceTask {
	return session.SourceTask{
		Session: p.name, Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}}}, Modules: p.modules, Encoding: p.encoding,
		Family: "any", Filters: []fivetuple.Filter{{Dport: p.port}}, Marking: wire.Marking{Flow: p.flow, Sampling: wire.Sampling{Every: p.every}}, Lease: session.Duration(time.Minute),
	}
}

func (p portSession) destination() session.DestinationTask {
	read := task(p.name, false, time.Hour)
	read.Filters, read.Flow = []fivetuple.Filter{{Dport: p.port}}, p.flow
	return read
}

// assign has both hosts run these sessions, and returns the states of the sources.
func assign(t *testing.T, from, to *host, sessions ...portSession) map[string]session.TaskState {
	t.Helper()
	var marking, reading session.Assignment
	alive := map[string][]string{}
	for _, s := range sessions {
		marking.Sources, reading.Destinations = append(marking.Sources, s.source()), append(reading.Destinations, s.destination())
		alive[s.name] = []string{"b"}
	}
	found := map[string]session.TaskState{}
	if err := netns.Do(to.namespace, func() error { to.Apply(reading, nil); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := netns.Do(from.namespace, func() error {
		from.Apply(marking, nil)
		from.Pulse(session.Pulse{Alive: alive})
		for _, state := range from.States() {
			if found[state.Session] = state; !state.Running || state.Error != "" {
				return fmt.Errorf("source: %+v", state)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// ofPort returns a function that sends a number of packets to a port of the destination and waits
// until they have arrived.
func (r *road) ofPort(port uint16) func(int) {
	r.t.Helper()
	in, out := r.arrivals, r.out
	if port != 9000 {
		if err := netns.Do(r.to, func() (err error) {
			in, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(destinationAddress), Port: int(port)})
			return err
		}); err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { in.Close() })
		if err := netns.Do(r.from, func() (err error) {
			out, err = net.DialUDP("udp", nil, &net.UDPAddr{IP: net.ParseIP(destinationAddress), Port: int(port)})
			return err
		}); err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(func() { out.Close() })
	}
	return func(packets int) {
		r.t.Helper()
		buffer := make([]byte, 40)
		for range packets {
			if _, err := out.Write(buffer); err != nil {
				r.t.Fatal(err)
			}
			_ = in.SetReadDeadline(time.Now().Add(hang.Limit))
			if _, err := in.Read(buffer); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// TestTwoSessionsOneDevice: the packets of each of some sessions are marked as it asks, and counted
// for it; both ends of each see all of them.
func TestTwoSessionsOneDevice(t *testing.T) {
	r := newRoad(t)
	from, to := newHost(t, r, r.from), newHost(t, r, r.to)
	both := []portSession{
		{"whole", "udp", []string{"delay", "loss"}, 0, 9000, 0},
		{"sampled", "shim", []string{"loss"}, 4, 9001, 0},
		{"hosts", "udp", []string{"loss"}, 0, 9002, fivetuple.Src | fivetuple.Dst},
	}
	assign(t, from, to, both...)
	whole, sampled, hosts := r.ofPort(9000), r.ofPort(9001), r.ofPort(9002)
	whole(30)
	sampled(40)
	hosts(20)
	states := assign(t, from, to, both...)
	for name, want := range map[string][3]uint64{"whole": {30, 0, 60}, "sampled": {10, 30, 60}, "hosts": {20, 0, 60}} {
		c := states[name].Counters
		if got := [3]uint64{c["policy_marked"], c["policy_not_sampled"], c["marked"]}; got != want {
			t.Errorf("%s: policy marked %d, not sampled %d, device marked %d; want %d", name, got[0], got[1], got[2], want)
		}
	}
	if err := netns.Do(r.to, func() error { to.Apply(session.Assignment{}, nil); return nil }); err != nil {
		t.Fatal(err)
	}
	r.holds("whole", 30, false)
	r.holds("sampled", 10, false)
	r.holds("hosts", 20, false)
}

// TestReplaceOnChange: while packets of one session flow, others come and go: none of its packets
// is left out or loses its number.
func TestReplaceOnChange(t *testing.T) {
	r := newRoad(t)
	from, to := newHost(t, r, r.from), newHost(t, r, r.to)
	steady := portSession{"steady", "udp", []string{"delay", "loss"}, 0, 9000, 0}
	others := []portSession{{"shim", "shim", []string{"loss"}, 3, 9001, 0}, {"option", "udp-option", []string{"delay"}, 0, 9002, 0}}
	assign(t, from, to, steady)
	send := r.ofPort(9000)
	sent := uint64(0)
	for _, sessions := range [][]portSession{{steady, others[0]}, {others[1], steady, others[0]}, {steady, others[1]}, {steady}} {
		done := make(chan struct{})
		go func() { // assign may not fail: it would end this goroutine only
			defer close(done)
			assign(t, from, to, sessions...)
		}()
		for changing := true; changing; sent++ {
			send(1)
			select {
			case <-done:
				changing = false
			default:
			}
		}
	}
	if t.Failed() {
		return
	}
	if err := netns.Do(r.to, func() error { to.Apply(session.Assignment{}, nil); return nil }); err != nil {
		t.Fatal(err)
	}
	r.holds("steady", sent, false)
}

// seen reports the encodings of the packets that arrive, by port of the destination.
func (r *road) seen(packets func()) map[uint16]map[string]int {
	r.t.Helper()
	var fd int
	if err := netns.Do(r.to, func() (err error) {
		const allIP = 0x0008 // ETH_P_IP in network byte order
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, allIP); err != nil {
			return err
		}
		device, err := net.InterfaceByName("in")
		if err != nil {
			return err
		}
		return errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 32<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allIP, Ifindex: device.Index}))
	}); err != nil {
		r.t.Fatal(err)
	}
	defer unix.Close(fd)
	packets()
	found := map[uint16]map[string]int{}
	buffer := make([]byte, 2048)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT)
		if err != nil {
			return found
		}
		original, _, encoding, err := codec.Extract(buffer[:n], wire.Port)
		name := encoding.String()
		if err != nil {
			original, name = buffer[:n], ""
		}
		port := binary.BigEndian.Uint16(original[22:])
		if found[port] == nil {
			found[port] = map[string]int{}
		}
		found[port][name]++
	}
}

// changed checks the encodings of the packets to a port during a change.
func changed(t *testing.T, round int, port uint16, encodings map[string]int, before, after string) {
	t.Helper()
	for encoding, n := range encodings {
		if encoding != before && encoding != after {
			t.Errorf("change %d: %d packets to port %d are marked by %q", round, n, port, encoding)
		}
	}
	for _, want := range []string{before, after} {
		if encodings[want] == 0 {
			t.Errorf("change %d: no packet to port %d is marked by %q: %v", round, port, want, encodings)
		}
	}
}

// TestChangeFilters: a source by hand is told to mark other packets in another way while both
// flow. Each packet is marked as before or as after, none by half a change.
func TestChangeFilters(t *testing.T) {
	r := newRoad(t)
	var s *Source
	settings := source.Settings{Policy: source.Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.UDP}}, Rules: []fivetuple.Filter{{Dport: 9000}}}
	inside := func(do func() error) {
		t.Helper()
		if err := netns.Do(r.from, do); err != nil {
			t.Fatal(err)
		}
	}
	inside(func() (err error) {
		s, err = OpenSource(LocalSource{Device: "out", Settings: settings, Lease: source.Forever})
		return err
	})
	t.Cleanup(func() { _ = s.Close() })
	var out net.PacketConn
	inside(func() (err error) {
		out, err = net.ListenPacket("udp4", sourceAddress+":0")
		return err
	})
	t.Cleanup(func() { out.Close() })
	send := func() {
		for _, port := range []int{9000, 9001} {
			if _, err := out.WriteTo(make([]byte, 40), &net.UDPAddr{IP: net.ParseIP(destinationAddress), Port: port}); err != nil {
				t.Fatal(err)
			}
		}
	}
	pace := time.NewTicker(100 * time.Microsecond) // what is captured must fit in a buffer
	defer pace.Stop()
	for round, row := range []struct {
		change        func(*source.Settings) error
		before, after map[uint16]string
	}{
		{func(s *source.Settings) error {
			s.Rules, s.Encodings, s.Modules = []fivetuple.Filter{{Dport: 9001}}, wire.EncodingList{wire.Shim}, wire.Loss
			return nil
		}, map[uint16]string{9000: "udp"}, map[uint16]string{9001: "shim"}},
		{func(s *source.Settings) error { s.Rules = []fivetuple.Filter{{Dport: 9000}}; return nil },
			map[uint16]string{9001: "shim"}, map[uint16]string{9000: "shim"}},
		{func(s *source.Settings) error { s.Encodings = wire.EncodingList{wire.UDPOption}; return nil },
			map[uint16]string{9000: "shim"}, map[uint16]string{9000: "udp-option"}},
	} {
		found := r.seen(func() {
			send()
			done := make(chan error, 1)
			go func() { done <- netns.Do(r.from, func() error { return s.Change(row.change) }) }()
			for {
				select {
				case err := <-done:
					if err != nil {
						t.Fatal(err)
					}
					send()
					return
				case <-pace.C:
					send()
				}
			}
		})
		for port, encodings := range found {
			changed(t, round, port, encodings, row.before[port], row.after[port])
		}
	}
	inside(func() error {
		bad := s.Change(func(s *source.Settings) error { s.Sampling.MinGap, s.Rules = -1, nil; return nil })
		if !errors.Is(bad, source.ErrSampling) {
			t.Errorf("a negative gap: %v", bad)
		}
		return nil
	})
	if found := r.seen(send); found[9000]["udp-option"] != 1 || found[9001][""] != 1 {
		t.Errorf("after a change that failed: %v", found)
	}
}
