package source

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// hopEncoding sends a packet through the egress program and reads its mark.
func hopEncoding(t *testing.T, s *Source, packet []byte) (wire.Encoding, codec.Mark) {
	t.Helper()
	out := run(t, s.objects.SourceTc, packet)
	_, m, e, err := codec.Extract(out, wire.Port)
	if err != nil {
		t.Fatalf("%x: %v", out, err)
	}
	return e, m
}

// due makes it the turn of the next packet, by whichever policy.
func (s *Source) due(t *testing.T) {
	t.Helper()
	if err := s.objects.HopNextNs.Set([PoliciesMax]uint64{}); err != nil {
		t.Fatal(err)
	}
}

// TestHopGap: one packet in a time is left to routers, whatever path it takes through the
// program, and takes its number from its flow as the others do.
func TestHopGap(t *testing.T) {
	_, rooms := reserved(t)
	var segment []byte
	for _, room := range rooms {
		if room[0]>>4 == 6 && len(room) < 1000 {
			segment = room
		}
	}
	datagram := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("pillion!")))
	for _, row := range []struct {
		name   string
		packet []byte
		usual  wire.Encoding
		tagged bool
	}{
		{"datagram", datagram, wire.UDPOption, false},
		{"tagged datagram", datagram, wire.UDPOption, true},
		{"segment", segment, wire.TCPOption, false},
		{"general path", ipv6("2001:db8::1", "2001:db8::2", 132, ported(1, 2, []byte("x"))), wire.Native, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			settings := Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.UDPOption, wire.TCPOption, wire.Native}, Marking: wire.Marking{StampEvery: 1, HopsGap: wire.Duration(time.Hour)}}}
			if row.tagged {
				settings = tagged(settings)
			}
			s := open(t, settings)
			if row.usual == wire.TCPOption { // a segment of a flow without a slot takes the general path
				hopEncoding(t, s, row.packet)
			}
			first := true
			var number uint32
			for turn := range 3 {
				s.due(t)
				for i := range 4 {
					want := row.usual
					if i == 0 {
						want = wire.IOAMTrace
					}
					e, m := hopEncoding(t, s, row.packet)
					if e != want || m.Tagged != row.tagged {
						t.Errorf("packet %d of turn %d is marked in %v, tagged %v; want %v", i, turn, e, m.Tagged, want)
					}
					if next := (number + 1) & wire.SequenceMask; !first && m.Sequence != next {
						t.Errorf("packet %d of turn %d has number %d, want %d", i, turn, m.Sequence, next)
					}
					first, number = false, m.Sequence
				}
			}
		})
	}
}

// TestHopGapSpares: what routers cannot or must not write into keeps its usual mark, and leaves
// the turn to the next packet.
func TestHopGapSpares(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.UDPOption, wire.Native, wire.UDP}, Marking: wire.Marking{StampEvery: 1, HopsGap: wire.Duration(time.Hour)}}})
	s.due(t)
	fits := 1500 - 40 - wire.IOAMTrace.Overhead(wire.Delay|wire.Loss) - 8
	for _, row := range []struct {
		name   string
		packet []byte
		want   wire.Encoding
	}{
		{"IPv4", ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x"))), wire.UDPOption},
		{"too long", ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, make([]byte, fits+1))), wire.UDPOption},
		{"too long, general path", ipv6("2001:db8::1", "2001:db8::2", 136, ported(1, 2, make([]byte, fits+1))), wire.Native},
		{"as long as possible", ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, make([]byte, fits))), wire.IOAMTrace},
	} {
		if e, _ := hopEncoding(t, s, row.packet); e != row.want {
			t.Errorf("%s: %v, want %v", row.name, e, row.want)
		}
	}
	sparse := sparsely(4, wire.UDPOption)
	sparse.HopsGap = wire.Duration(time.Second)
	if _, err := specification(hookDevice, sparse, 0); err == nil {
		t.Error("sparse marks with traces of hops are accepted")
	}
}

// TestHopGapIsValidated: until such packets are known to arrive, the usual mark is used.
func TestHopGapIsValidated(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{wire.UDPOption}, Marking: wire.Marking{StampEvery: 1, HopsGap: wire.Duration(time.Hour)}}, ValidatePaths: true})
	packet := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x")))
	s.validate(t, "2001:db8::2", wire.UDPOption, Passed)
	s.due(t)
	if e, _ := hopEncoding(t, s, packet); e != wire.UDPOption {
		t.Errorf("not validated: %v", e)
	}
	s.validate(t, "2001:db8::2", wire.IOAMTrace, Passed)
	s.due(t)
	if e, _ := hopEncoding(t, s, packet); e != wire.IOAMTrace {
		t.Errorf("validated: %v", e)
	}
	s.validate(t, "2001:db8::2", wire.IOAMTrace, Failed)
	s.due(t)
	if e, _ := hopEncoding(t, s, packet); e != wire.UDPOption {
		t.Errorf("failed: %v", e)
	}
}

// TestHopGapAndSampling: a packet that is not sampled leaves its turn to the next.
func TestHopGapAndSampling(t *testing.T) {
	for _, e := range []wire.Encoding{wire.UDPOption, wire.Native} {
		t.Run(e.String(), func(t *testing.T) {
			s := open(t, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{e}, Marking: wire.Marking{StampEvery: 1, HopsGap: wire.Duration(time.Hour), Sampling: wire.Sampling{Every: 3}}}})
			packet := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x")))
			var got []wire.Encoding
			for i := range 12 {
				if i == 6 {
					s.due(t)
				}
				out := run(t, s.objects.SourceTc, packet)
				if bytes.Equal(out, packet) {
					continue
				}
				_, _, marked, err := codec.Extract(out, wire.Port)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, marked)
			}
			if want := []wire.Encoding{wire.IOAMTrace, e, wire.IOAMTrace, e}; !slices.Equal(got, want) {
				t.Errorf("sampled packets are marked in %v, want %v", got, want)
			}
		})
	}
}

// TestHopGapOfPolicies: the packets of a policy do not take the turns of another one, and path
// probes find the one that has the encoding.
func TestHopGapOfPolicies(t *testing.T) {
	s := open(t, Settings{Policy: Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}}, StartEmpty: true})
	usual := Policy{Modules: both, Encodings: wire.EncodingList{wire.Native}, Marking: wire.Marking{StampEvery: 1}}
	often, seldom := usual, usual
	often.HopsGap, seldom.HopsGap = 1, wire.Duration(time.Hour)
	s.setPoliciesOf(t, []Policy{usual, often, seldom}, []Rule{toPort(1000, 0), toPort(1001, 1), toPort(1002, 2)})
	for round := range 3 {
		for port, want := range map[uint16]string{1000: "native", 1001: "ioam-trace", 1002: "native"} {
			if port == 1002 && round == 0 {
				want = "ioam-trace"
			}
			if _, got := s.markOf(t, ipv6("2001:db8::1", "2001:db8::2", 17, ported(7, port, []byte("x")))); got != want {
				t.Errorf("round %d: port %d is marked in %q, want %q", round, port, got, want)
			}
		}
	}
	var probes [encodingsMax]uint8
	if err := s.objects.ProbePolicies.Get(&probes); err != nil {
		t.Fatal(err)
	}
	if at := int(probes[wire.IOAMTrace]); at != s.places[1] && at != s.places[2] {
		t.Errorf("path probes in ioam-trace go to policy %d, those of hops are %v", at, s.places[1:])
	}
}
