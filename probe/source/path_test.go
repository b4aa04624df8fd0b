package source

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// tooBig is a router's error about a packet: RFC 1191, RFC 4443.
func tooBig(quoted []byte, mtu uint16) []byte {
	icmp := make([]byte, 8, 8+len(quoted))
	binary.BigEndian.PutUint16(icmp[6:], mtu)
	icmp = append(icmp, quoted...)
	if quoted[0]>>4 == 6 {
		icmp[0] = 2
		return ipv6("2001:db8::99", "2001:db8::1", 58, icmp)
	}
	icmp[0], icmp[1] = 3, 4
	return ipv4("203.0.113.9", "192.0.2.1", 1, icmp)
}

// sent4 and sent6 are datagrams of a size, of the flow that is marked.
func sent4(n int) []byte {
	return ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, make([]byte, n-28)))
}

func sent6(n int) []byte {
	return ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, make([]byte, n-48)))
}

// quotes are how packets travel, with the bytes of them that a router quotes at least so that
// the number is there.
var quotes = []struct {
	encoding wire.Encoding
	packet   func(int) []byte
	least    int
}{
	{wire.Native, sent6, 40 + 32 + 8}, {wire.Shim, sent4, 20 + 24 + 8}, {wire.IPIP, sent4, 20 + 20 + 24 + 8}, {wire.UDP, sent4, 20 + 8 + 24 + 20 + 8},
}

// TestPathMTUIsLearned: from an error about a packet that was sent, until it is forgotten.
func TestPathMTUIsLearned(t *testing.T) {
	for _, q := range quotes {
		t.Run(q.encoding.String(), func(t *testing.T) {
			s := open(t, all(q.encoding, wire.Delay|wire.Loss))
			packet := q.packet(1420)
			sent := run(t, s.objects.SourceTc, packet)
			for _, length := range []int{548, q.least} {
				icmp := tooBig(sent[:length], 1400)
				if out := run(t, s.objects.SourceReturn, icmp); !bytes.Equal(out, icmp) {
					t.Errorf("the error itself was changed")
				}
				if got := s.outcome(t, packet); got != "mtu" {
					t.Errorf("after an error with %d bytes: %s", length, got)
				}
				if got := s.outcome(t, q.packet(1400-q.encoding.Overhead(wire.Delay|wire.Loss))); got != "marked" {
					t.Errorf("a packet that just fits: %s", got)
				}
				if err := s.forgetPaths(1<<63, 1); err != nil {
					t.Fatal(err)
				}
				if got := s.outcome(t, packet); got != "marked" {
					t.Errorf("forgotten: %s", got)
				}
			}
		})
	}
}

// TestDeviceMTULowered: packets that the marks would make larger than the device's MTU are not
// marked, although the source was told another one: of a device whose MTU is lowered, it learns later.
func TestDeviceMTULowered(t *testing.T) {
	encodings := map[wire.Encoding]func(int) []byte{wire.Native: sent6, wire.Shim: sent4, wire.UDP: sent4, wire.UDPOption: sent4}
	for encoding, packet := range encodings {
		t.Run(encoding.String(), func(t *testing.T) {
			s := open(t, all(encoding, wire.Delay|wire.Loss))
			name := namespace.New(t)
			fits := 1400 - encoding.Overhead(wire.Delay|wire.Loss)
			for mtu, outcome := range map[int]string{1500: "marked", 1400: "mtu"} {
				err := netns.Do(name, func() error { // packets of program runs are on this namespace's lo
					lo, err := netlink.LinkByName("lo")
					if err == nil {
						err = netlink.LinkSetMTU(lo, mtu)
					}
					if got := s.outcome(t, packet(1400)); err == nil && got != outcome {
						t.Errorf("MTU %d: 1400 bytes: %s, want %s", mtu, got, outcome)
					}
					if got := s.outcome(t, packet(fits)); err == nil && got != "marked" {
						t.Errorf("MTU %d: %d bytes, which fit: %s", mtu, fits, got)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestForgedPathMTU: errors about packets that were not sent, and those with an MTU that no
// path has, change nothing; real ones beside them still do.
func TestForgedPathMTU(t *testing.T) {
	for _, q := range quotes {
		s := open(t, all(q.encoding, wire.Delay|wire.Loss))
		packet := q.packet(1420)
		sent := run(t, s.objects.SourceTc, packet)[:548]
		six, header := sent[0]>>4 == 6, 20
		if six {
			header = 40
		}
		number := numberIn(t, run(t, s.objects.SourceTc, packet), sent)
		change := func(at int, with ...byte) []byte {
			b := slices.Clone(sent)
			copy(b[at:], with)
			return b
		}
		length, source := 2, 12
		if six {
			length, source = 4, 8
		}
		forged := map[string][]byte{
			"another number":     tooBig(change(number, sent[number]^0x20), 1400),
			"a number to come":   tooBig(change(number+3, sent[number+3]+0x40), 1400),
			"another flow":       tooBig(change(q.least-8, 9, 9), 1400),
			"another source":     tooBig(change(source, 9), 1400),
			"smaller than that":  tooBig(change(length, 0, 200), 1400),
			"larger than any":    tooBig(change(length, 0xff, 0xff), 1400),
			"unmarked":           tooBig(packet[:548], 1400),
			"without the number": tooBig(sent[:header+8], 1400),
			"cut off":            tooBig(sent[:10], 1400),
			"no less":            tooBig(sent, 1500),
			"another error":      slices.Replace(tooBig(sent, 1400), header, header+1, 1),
		}
		if six {
			forged["less than any link"] = tooBig(sent, 1279)
		}
		for name, icmp := range forged {
			run(t, s.objects.SourceReturn, icmp)
			if got := s.outcome(t, packet); got != "marked" {
				t.Fatalf("%v, %s: %s", q.encoding, name, got)
			}
		}
		if !six { // bounded by what every host can receive
			run(t, s.objects.SourceReturn, tooBig(sent, 68))
			if got := s.outcome(t, q.packet(500)); got != "marked" {
				t.Errorf("%v, small packet after an MTU of 68: %s", q.encoding, got)
			}
			if err := s.LimitPath(netip.MustParseAddr("198.51.100.2"), 0); err != nil {
				t.Fatal(err)
			}
		}
		run(t, s.objects.SourceReturn, tooBig(sent, 1400))
		if got := s.outcome(t, packet); got != "mtu" {
			t.Errorf("%v, a real one: %s", q.encoding, got)
		}
	}
}

// numberIn finds the number of the mark of a packet that was sent just before another one.
func numberIn(t *testing.T, next, packet []byte) int {
	t.Helper()
	_, m, _, err := codec.Extract(next, wire.Port)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(packet, binary.BigEndian.AppendUint32(nil, m.Sequence-1|1<<31))
	if at < 0 {
		t.Fatalf("no number in %x", packet)
	}
	return at
}

// TestManyForgedErrors: errors with arbitrary changes of a real quote lower the path MTU only
// if what identifies the packet is intact.
func TestManyForgedErrors(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, q := range quotes {
		t.Run(q.encoding.String(), func(t *testing.T) {
			s := open(t, all(q.encoding, wire.Delay|wire.Loss))
			packet := q.packet(1420)
			sent := run(t, s.objects.SourceTc, packet)[:548]
			at := numberIn(t, run(t, s.objects.SourceTc, packet), sent)
			for i := range 5000 {
				forged := slices.Clone(sent[:q.least+random.IntN(len(sent)-q.least)])
				binary.BigEndian.PutUint32(forged[at:], random.Uint32())
				back := (binary.BigEndian.Uint32(sent[at:]) + 1 - binary.BigEndian.Uint32(forged[at:])) & (1<<31 - 1)
				if back < 1<<14+2 { // by chance
					continue
				}
				for range random.IntN(4) {
					other := random.IntN(len(forged))
					if other < at || other >= at+4 {
						forged[other] = byte(random.Uint32())
					}
				}
				icmp := tooBig(forged, uint16(random.Uint32()))
				if _, err := tryRun(t, s.objects.SourceReturn, icmp); err != nil {
					continue // no packet for the kernel either
				}
				if i%100 == 99 {
					if got := s.outcome(t, packet); got != "marked" {
						t.Fatalf("forgery %d: %s", i, got)
					}
				}
			}
		})
	}
}

// TestTooBigDatagramIsTested: the mark of a datagram is not quoted. With path validation an
// error has the agent test what arrives; without, it counts if the datagram looks like ours.
func TestTooBigDatagramIsTested(t *testing.T) {
	for _, validate := range []bool{true, false} {
		t.Run(fmt.Sprintf("validate %t", validate), func(t *testing.T) {
			var s *Source
			if validate {
				s = validating(t, wire.UDPOption)
				s.validate(t, "198.51.100.2", wire.UDPOption, Passed)
			} else {
				s = open(t, all(wire.UDPOption, wire.Delay|wire.Loss))
			}
			packet := sent4(1420)
			sent := run(t, s.objects.SourceTc, packet)
			if len(sent) == len(packet) {
				t.Fatal("not marked")
			}
			other := slices.Clone(sent)
			other[20] = 99
			for _, forged := range [][]byte{tooBig(other[:28], 1400), tooBig(packet[:28], 1420), tooBig(sent[:28], 1500)} {
				run(t, s.objects.SourceReturn, forged)
				if got := s.outcome(t, packet); got != "marked" {
					t.Errorf("after a forged one: %s", got)
				}
			}
			run(t, s.objects.SourceReturn, tooBig(sent[:28], 1400))
			want := "mtu"
			if validate {
				want = "marked"
				requests := s.requested(t)
				if len(requests) != 1 || !requests[0].TooBig || requests[0].Address != netip.MustParseAddr("198.51.100.2") {
					t.Errorf("requests %v", requests)
				}
			}
			if got := s.outcome(t, packet); got != want {
				t.Errorf("after a real one: %s, want %s", got, want)
			}
		})
	}
}

// TestTaggedPathMTU: where marks have tags, a quote needs the right one, which nobody can
// make up who knows flow and number.
func TestTaggedPathMTU(t *testing.T) {
	for _, modules := range []wire.Module{wire.Delay | wire.Loss, wire.Loss} {
		for _, q := range quotes {
			t.Run(fmt.Sprint(q.encoding, " ", modules), func(t *testing.T) {
				s := open(t, tagged(all(q.encoding, modules)))
				packet := q.packet(1420)
				sent := run(t, s.objects.SourceTc, packet)
				at := numberIn(t, run(t, s.objects.SourceTc, packet), sent)
				for bit := range 32 {
					forged := slices.Clone(sent)
					forged[at+4+bit/8] ^= 1 << (bit % 8)
					run(t, s.objects.SourceReturn, tooBig(forged[:548], 1400))
				}
				forged := slices.Clone(sent)
				forged[at+3]++ // that of the second packet, with the tag of the first
				run(t, s.objects.SourceReturn, tooBig(forged[:548], 1400))
				run(t, s.objects.SourceReturn, tooBig(sent[:at+6], 1400))
				if got := s.outcome(t, packet); got != "marked" {
					t.Errorf("after forged errors: %s", got)
				}
				run(t, s.objects.SourceReturn, tooBig(sent[:548], 1400))
				if got := s.outcome(t, packet); got != "mtu" {
					t.Errorf("after a real one: %s", got)
				}
			})
		}
	}
}

// TestTCPPathMTU: the number of a segment is among its options.
func TestTCPPathMTU(t *testing.T) {
	for name, settings := range map[string]Settings{
		"plain": all(wire.TCPOption, wire.Delay|wire.Loss), "tagged": tagged(all(wire.TCPOption, wire.Delay|wire.Loss)),
		"tagged, loss": tagged(all(wire.TCPOption, wire.Loss)),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, settings)
			segment, reserve := ipv4("192.0.2.1", "198.51.100.2", 6, tcp(1, 2, 0x10, nil, make([]byte, 1380))), codec.ReserveTCPOption
			if settings.Tagged {
				reserve = codec.ReserveTaggedTCPOption
			}
			segment, err := reserve(segment)
			if err != nil {
				t.Fatal(err)
			}
			sent := run(t, s.objects.SourceTc, segment)
			learned := func() bool {
				var limit sourcePathLimit
				target := rawTarget(netip.MustParseAddr("198.51.100.2"))
				return s.objects.Paths.Lookup(sourcePath{Dst: target.Address, Family: target.Family}, &limit) == nil
			}
			at := numberIn(t, run(t, s.objects.SourceTc, segment), sent)
			for _, change := range []int{at, at + 1, 20, 22} {
				forged := slices.Clone(sent)
				forged[change] ^= 0x10
				run(t, s.objects.SourceReturn, tooBig(forged[:548], 1400))
			}
			run(t, s.objects.SourceReturn, tooBig(sent[:28], 1400)) // without options
			if learned() {
				t.Error("learned from a forged error")
			}
			run(t, s.objects.SourceReturn, tooBig(sent[:548], 1400))
			if !learned() {
				t.Error("not learned from a real one")
			}
		})
	}
}
