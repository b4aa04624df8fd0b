package source

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

// connection makes the segments of a TCP connection.
type connection struct {
	version int
	sport   uint16
}

// headersOf is what precedes the data of a segment without options.
func headersOf(version int) int { return map[int]int{4: 40, 6: 60}[version] }

// segment is one that makes an IP packet of a size without options.
func (c connection) segment(sequence uint32, size int) []byte {
	transport := tcp(c.sport, 80, 0x10, nil, make([]byte, size-headersOf(c.version)))
	binary.BigEndian.PutUint32(transport[4:], sequence)
	if c.version == 6 {
		return sealTCP(ipv6("2001:db8::1", "2001:db8::2", 6, transport))
	}
	return sealTCP(ipv4("192.0.2.1", "198.51.100.2", 6, transport))
}

func (c connection) peer() netip.Addr {
	if c.version == 6 {
		return netip.MustParseAddr("2001:db8::2")
	}
	return netip.MustParseAddr("198.51.100.2")
}

// limit is what the program knows of the path of a connection.
func (s *Source) limit(t *testing.T, c connection) (key sourcePath, limit sourcePathLimit) {
	t.Helper()
	target := rawTarget(c.peer())
	key = sourcePath{Dst: target.Address, Family: target.Family}
	if err := s.objects.Paths.Lookup(key, &limit); err != nil {
		t.Fatalf("look up path: %v", err)
	}
	return key, limit
}

// heldFor returns for how long large packets are left alone, from now on.
func (s *Source) heldFor(t *testing.T, c connection) time.Duration {
	t.Helper()
	_, limit := s.limit(t, c)
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(int64(limit.Until) - now.Nano())
}

// expire ends the time for which large packets are left alone.
func (s *Source) expire(t *testing.T, c connection) {
	t.Helper()
	key, limit := s.limit(t, c)
	limit.Until = 0
	if err := s.objects.Paths.Put(key, limit); err != nil {
		t.Fatal(err)
	}
}

// age makes the watched segments of all flows some seconds older.
func (s *Source) age(t *testing.T) {
	t.Helper()
	const units = 16 // of 134 ms
	for i := range s.objects.Slots.MaxEntries() {
		var slot sourceSlot
		if err := s.objects.Slots.Lookup(i, &slot); err != nil {
			t.Fatal(err)
		}
		if slot.Numbers.Sending.When != 0 {
			slot.Numbers.Sending.When -= units
			if slot.Numbers.Sending.When == 0 {
				slot.Numbers.Sending.When = 255 - units
			}
			if err := s.objects.Slots.Put(i, slot); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// script sends segments and compares their outcomes.
type step struct {
	sequence uint32
	size     int
	want     string
}

func (s *Source) play(t *testing.T, c connection, steps ...step) {
	t.Helper()
	for i, step := range steps {
		if got := s.outcome(t, c.segment(step.sequence, step.size)); got != step.want {
			t.Fatalf("step %d, sequence %d, %d bytes: %s, want %s", i, step.sequence, step.size, got, step.want)
		}
	}
}

// encodingsOfSegments are those that make a segment larger, by IP version.
var encodingsOfSegments = map[int]wire.Encoding{4: wire.UDP, 6: wire.Native}

// TestRetransmittedStaysUnmarked: a retransmission that only its mark makes larger than others
// stays unmarked, and so do new segments of that size for some time, which doubles.
func TestRetransmittedStaysUnmarked(t *testing.T) {
	for version, encoding := range encodingsOfSegments {
		for name, settings := range map[string]Settings{
			"numbered":   all(encoding, wire.Delay|wire.Loss),
			"delay":      all(encoding, wire.Delay),
			"aggregated": {Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{encoding, wire.Native}, Marking: wire.Marking{StampEvery: 1, Flow: flow.Src | flow.Dst}}},
		} {
			t.Run(fmt.Sprintf("IPv%d, %s", version, name), func(t *testing.T) {
				s, c := open(t, settings), connection{version, 1000}
				data := uint32(1400 - headersOf(version))
				at := uint32(1) << 31
				s.play(t, c, step{at, 1400, "marked"}, step{at + data, 1400, "marked"}, step{at + 2*data, 1400, "marked"})
				for strike := range 10 {
					s.play(t, c, step{at, 1400, "retransmitted"}) // the watched segment is the first
					if held, want := s.heldFor(t, c), 2*time.Second<<min(strike, 8); held < want-time.Second || held > want {
						t.Fatalf("held for %v, want %v", held, want)
					}
					s.play(t, c,
						step{at + data, 1400, "mtu"},                            // a retransmission
						step{at + 3*data, 1400, "mtu"},                          // what is new
						step{at + 4*data, 1300, "marked"},                       // fits with a mark
						step{at + 4*data, 1300, "marked"},                       // it does not matter that it is repeated
						step{at + 5*data - 1, headersOf(version) + 1, "marked"}, // nor that a probe for an answer repeats a byte
					)
					s.expire(t, c)
					if err := s.revalidate(); err != nil {
						t.Fatal(err)
					}
					at += 8 * data
					s.play(t, c, step{at, 1400, "marked"}, step{at + data, 1400, "marked"}, step{at + 2*data, 1400, "marked"})
				}
				if err := s.LimitPath(c.peer(), 0); err != nil {
					t.Fatal(err)
				}
				s.play(t, c, step{at + 9*data, 1400, "marked"})
				s.play(t, c, step{at + 9*data, 1400, "retransmitted"})
			})
		}
	}
}

// A test of the path MTU ends what retransmissions have led to, and is asked for.
func TestSizeTestEndsHold(t *testing.T) {
	s, c := validating(t, wire.Native), connection{6, 1000}
	s.validate(t, c.peer().String(), wire.Native, Passed)
	hold := func(at uint32) {
		t.Helper()
		s.play(t, c, step{at, 1400, "marked"}, step{at, 1400, "retransmitted"}, step{at + 1340, 1400, "mtu"})
	}
	hold(1)
	if asked := s.requested(t); len(asked) != 1 || !asked[0].TooBig || asked[0].Held != 1400 || asked[0].Address != c.peer() {
		t.Errorf("requests %+v", asked)
	}
	if err := s.LimitPath(c.peer(), 0); err != nil {
		t.Fatal(err)
	}
	hold(10_000)
	if err := s.LimitPath(c.peer(), 1410); err != nil {
		t.Fatal(err)
	}
	s.play(t, c, step{20_000, 1378, "marked"}, step{30_000, 1379, "mtu"})
	if _, limit := s.limit(t, c); limit.Mtu != 1410 || limit.Held != 0 || limit.Strikes != 0 {
		t.Errorf("%+v", limit)
	}
}

func TestRetransmissionsOfConnections(t *testing.T) {
	const data = 1340
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"sequence numbers wrap", []step{
			{1<<32 - 2*data, 1400, "marked"}, {1<<32 - data, 1400, "marked"}, {0, 1400, "marked"}, {data, 1400, "marked"},
			{1<<32 - 2*data, 1400, "retransmitted"}, {2 * data, 1400, "mtu"},
		}},
		{"across the wrap", []step{{1<<32 - 10, 1400, "marked"}, {data - 10, 1400, "marked"}, {1<<32 - 10, 1400, "retransmitted"}}},
		{"another part of what was sent", []step{{1, 1400, "marked"}, {1 + data, 1400, "marked"}, {1 + data, 1400, "retransmitted"}, {1 + 2*data, 1400, "marked"}}},
		{"another connection between the same ports", []step{{1 << 30, 1400, "marked"}, {1, 1400, "marked"}, {1 + data, 1400, "marked"}}},
		{"no data", []step{{1 << 30, 1400, "marked"}, {1 << 30, 60, "marked"}, {1<<30 + data, 1400, "marked"}}},
		{"small enough for every link", []step{{1, 1248, "marked"}, {1, 1248, "marked"}}},
		{"no larger than others without a mark", []step{{1, 1400, "marked"}, {data, 1360, "marked"}, {data, 1360, "marked"}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			open(t, all(wire.Native, wire.Delay|wire.Loss)).play(t, connection{6, 1000}, row.steps...)
		})
	}
}

// Segments are lost for other reasons than their size: once some were seen to arrive, only three
// in a row of one flow count.
func TestOrdinaryLossDoesNotStopMarks(t *testing.T) {
	const data = 1340
	s, c := open(t, all(wire.Native, wire.Delay|wire.Loss)), connection{6, 1000}
	at := uint32(1)
	next := func(want string) {
		t.Helper()
		s.play(t, c, step{at, 1400, want})
		at += data
	}
	next("marked")
	s.age(t)
	next("marked") // the first one has arrived
	for range 20 {
		for range 2 {
			next("marked")
			s.play(t, c, step{at - data, 1400, "retransmitted"}, step{at - data, 1400, "retransmitted"})
		}
		next("marked")
		s.age(t)
		next("marked")
	}
	other := connection{6, 1001} // a new flow on the same path
	for range 2 {
		s.play(t, other, step{1, 1400, "marked"}, step{1, 1400, "retransmitted"}, step{1 + data, 1400, "marked"})
		other.sport++
	}
	s.age(t)
	for range 3 { // the path has become narrower
		s.play(t, c, step{at, 1400, "marked"}, step{at, 1400, "retransmitted"})
		at += data
	}
	next("mtu")
	s.expire(t, c)
	next("mtu")
	next("marked")
	s.play(t, c, step{at - data, 1400, "retransmitted"})
	next("mtu") // now nothing is known to arrive
	if _, limit := s.limit(t, c); limit.Strikes != 2 {
		t.Errorf("%+v", limit)
	}
	s.expire(t, c)
	next("mtu")
	next("marked")
	s.age(t)
	next("marked")
	if _, limit := s.limit(t, c); limit.Strikes != 0 {
		t.Errorf("%+v", limit)
	}
}

// Time that is over is noticed without packets of TCP, which notices it by itself.
func TestSweepEndsHold(t *testing.T) {
	s, c := open(t, all(wire.Native, wire.Delay|wire.Loss)), connection{6, 1000}
	datagram := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, make([]byte, 1352)))
	s.play(t, c, step{1, 1400, "marked"}, step{1, 1400, "retransmitted"})
	if got := s.outcome(t, datagram); got != "mtu" {
		t.Errorf("datagram: %s", got)
	}
	s.expire(t, c)
	tick, err := clock.Tick()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.forgetPaths(0, uint64(pathTime/tick)); err != nil {
		t.Fatal(err)
	}
	if got := s.outcome(t, datagram); got != "marked" {
		t.Errorf("datagram: %s", got)
	}
}
