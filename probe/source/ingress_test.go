package source

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// forwarded makes a packet one that came in by a device.
var forwarded = map[int]uint32{contextIngressIfindex: 1}

// withIngress are the settings of an edge.
func withIngress(tagged bool, encodings ...wire.Encoding) Settings {
	return Settings{Policy: Policy{Modules: wire.Delay | wire.Loss, Encodings: encodings, Tagged: tagged, Ingress: 42, Marking: wire.Marking{StampEvery: 1}}}
}

// keysIf returns the keys of marks with tags.
func keysIf(tagged bool) map[netip.Prefix]wire.Key {
	if !tagged {
		return nil
	}
	return map[netip.Prefix]wire.Key{everywhere[0]: pairKey, everywhere[1]: pairKey}
}

// TestIngressOption: marks of packets that an edge forwards name it; the codec, which is written
// apart from the program, reads them, and their lengths are what package wire says.
func TestIngressOption(t *testing.T) {
	six := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("pillion!")))
	four := seal4(ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("pillion!"))))
	for _, row := range []struct {
		encoding wire.Encoding
		packet   []byte
	}{{wire.Native, six}, {wire.Shim, four}, {wire.IPIP, four}, {wire.UDP, four}} {
		for _, tagged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v tagged=%v", row.encoding, tagged), func(t *testing.T) {
				settings := withIngress(tagged, wire.UDPOption, row.encoding)
				settings.Keys = keysIf(tagged)
				s := open(t, settings)
				out := s.runAs(t, row.packet, forwarded)
				original, m, encoding, err := codec.Extract(out, wire.Port)
				if err != nil || encoding != row.encoding || !bytes.Equal(original, row.packet) {
					t.Fatalf("%x became %x: %v, %v", row.packet, out, encoding, err)
				}
				if want := codec.AppendModules(codec.IngressOption(42)); m.Options != want || m.Tagged != tagged || m.Sent == 0 {
					t.Errorf("mark %+v, want options %x", m, want)
				}
				if add := row.encoding.Size(wire.Delay|wire.Loss, tagged, false, ingressBytes); len(out)-len(row.packet) != add {
					t.Errorf("%d bytes added, package wire says %d", len(out)-len(row.packet), add)
				}
				if p := settings.complete(); len(out)-len(row.packet) != p.overhead(row.encoding) {
					t.Errorf("%d bytes added, path probes count %d", len(out)-len(row.packet), p.overhead(row.encoding))
				}
			})
		}
	}
}

// TestIngressInStandards: in the header of a standard the number stands behind the mark, padded to
// eight bytes more.
func TestIngressInStandards(t *testing.T) {
	packet := ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("pillion!")))
	both := wire.Delay | wire.Loss
	for _, row := range []struct {
		encoding wire.Encoding
		modules  wire.Module
		tagged   bool
	}{{wire.IOAME2E, both, true}, {wire.IOAME2E, both, false}, {wire.IOAME2E, wire.Delay, false}, {wire.IOAMTrace, both, true}, {wire.IOAMTrace, both, false}} {
		t.Run(fmt.Sprintf("%v %v tagged=%v", row.encoding, row.modules, row.tagged), func(t *testing.T) {
			settings := withIngress(row.tagged, row.encoding)
			settings.Modules, settings.Keys = row.modules, keysIf(row.tagged)
			out := open(t, settings).runAs(t, packet, forwarded)
			if want := len(packet) + row.encoding.Size(row.modules, row.tagged, false, 0) + 8; len(out) != want {
				t.Fatalf("%x: %d bytes, want %d", out, len(out), want)
			}
			if p := settings.complete(); len(out)-len(packet) != p.overhead(row.encoding) {
				t.Errorf("%d bytes added, path probes count %d", len(out)-len(packet), p.overhead(row.encoding))
			}
			at := bytes.Index(out, []byte{0x3e, 5, 2, 0, 0, 0, 42})
			header := out[40 : 40+8+8*int(out[41])]
			if at < 0 || len(header) != len(out)-len(packet) || !bytes.Equal(out[at+7:40+len(header)], padding(40+len(header)-at-7)) {
				t.Errorf("header %x", header)
			}
		})
	}
}

// padding is how Pillion fills the end of a header.
func padding(n int) []byte {
	b := make([]byte, n)
	if n > 1 {
		b[0], b[1] = 1, byte(n-2)
	}
	return b
}

// TestForwardedOnly: an edge marks what it forwards, and none of its own packets, whichever
// encoding would fit these.
func TestForwardedOnly(t *testing.T) {
	settings := withIngress(false, wire.UDPOption, wire.TCPOption, wire.Native, wire.UDP)
	s := open(t, settings)
	for _, packet := range [][]byte{
		ipv6("2001:db8::1", "2001:db8::2", 17, ported(1, 2, []byte("x"))),
		seal4(ipv4("192.0.2.1", "198.51.100.2", 17, ported(1, 2, []byte("x")))),
		sealTCP(ipv6("2001:db8::1", "2001:db8::2", 6, tcp(1, 2, 0x10, nil, []byte("x")))),
	} {
		before := s.mustTally(t)
		if out := s.runAs(t, packet, nil); !bytes.Equal(out, packet) {
			t.Errorf("own packet %x became %x", packet, out)
		}
		if out := s.runAs(t, packet, forwarded); bytes.Equal(out, packet) {
			t.Errorf("forwarded packet %x was not marked", packet)
		}
		after := s.mustTally(t)
		if after.Marked-before.Marked != 1 || after.Skipped["no_match"]-before.Skipped["no_match"] != 1 {
			t.Errorf("tally %+v", after)
		}
	}
}

// TestExistingMarkIsLeft: an edge leaves packets that have the mark of another source, but adds
// its own to those that carry one in an option of the transport, which only their hosts read.
func TestExistingMarkIsLeft(t *testing.T) {
	vectors, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[wire.Encoding]bool{}
	s := open(t, withIngress(false, wire.Native, wire.UDP))
	for _, v := range vectors {
		if seen[v.Encoding] || v.Port != wire.Port {
			continue
		}
		seen[v.Encoding] = true
		t.Run(v.Encoding.String(), func(t *testing.T) {
			before := s.mustTally(t)
			out := s.runAs(t, v.Marked, forwarded)
			tally := s.mustTally(t)
			tally.Marked -= before.Marked
			for reason, n := range before.Skipped {
				tally.Skipped[reason] -= n
			}
			switch v.Encoding {
			case wire.UDPOption, wire.TCPOption:
				inside, _, encoding, err := codec.Extract(out, wire.Port)
				if err != nil || tally.Marked != 1 || !bytes.Equal(inside, v.Marked) {
					t.Fatalf("%x became %x: %+v", v.Marked, out, tally)
				}
				if original, m, within, err := codec.Extract(inside, wire.Port); err != nil || within != v.Encoding || m != v.Mark || !bytes.Equal(original, v.Original) {
					t.Errorf("inside %v is %v %+v: %v", encoding, within, m, err)
				}
			default:
				if tally.Skipped["existing_option"]+tally.Skipped["extension"] != 1 || !bytes.Equal(out, v.Marked) {
					t.Errorf("%x became %x: %+v", v.Marked, out, tally)
				}
			}
		})
	}
	if len(seen) != len(wire.Encodings()) {
		t.Errorf("%d of %d encodings were tried", len(seen), len(wire.Encodings()))
	}
}

// TestIngressRefused: settings that would leave packets without a number.
func TestIngressRefused(t *testing.T) {
	sparse, aggregate, large := withIngress(false, wire.Native), withIngress(false, wire.Native), withIngress(false, wire.Native)
	sparse.SparseMarks, sparse.Flow, large.Ingress = true, flow.All, wire.IngressMax+1
	aggregate.Flow = flow.Src | flow.Dst
	for _, row := range []struct {
		name     string
		settings Settings
		refused  bool
	}{{"sparse", sparse, true}, {"large", large, true}, {"aggregate", aggregate, false}} {
		if err := row.settings.check(); (err != nil) != row.refused {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
