package source

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// pairKey is shared with every destination of these tests.
var pairKey = wire.Key{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

func tagged(settings Settings) Settings {
	settings.Tagged, settings.Keys = true, map[netip.Prefix]wire.Key{}
	for _, prefix := range everywhere {
		settings.Keys[prefix] = pairKey
	}
	return settings
}

// TestTags compares the tag of each golden packet with that of the codec.
func TestTags(t *testing.T) { tags(t, "delay,loss", "sparse") }

// tags does so for these ways to mark packets.
func tags(t *testing.T, chosen ...string) {
	vectors, err := codec.Vectors()
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(wire.Encoding) Settings{
		"delay,loss": func(e wire.Encoding) Settings { return all(e, wire.Delay|wire.Loss) },
		"loss":       func(e wire.Encoding) Settings { return all(e, wire.Loss) },
		"delay":      func(e wire.Encoding) Settings { return all(e, wire.Delay) }, // numbered all the same
		"sparse":     func(e wire.Encoding) Settings { return sparsely(2, e, wire.Native) },
	}
	for _, encoding := range append(standards(), encodings...) {
		for _, name := range chosen {
			if name == "sparse" && encoding.Carries()&wire.CarriesSparse == 0 {
				continue
			}
			t.Run(fmt.Sprint(encoding, " ", name), func(t *testing.T) {
				s := open(t, tagged(ways[name](encoding)))
				checked := 0
				for _, v := range vectors {
					if v.Encoding != wire.Native && v.Encoding != encoding || v.Port != wire.Port || len(v.Original) > 1400 {
						continue
					}
					in := v.Original
					if v.Encoding == wire.TCPOption {
						if in, err = codec.ReserveTaggedTCPOption(v.Original); err != nil {
							continue // no room
						}
					}
					if checkTag(t, s, in) {
						checked++
					}
				}
				if checked == 0 {
					t.Error("no packet was marked")
				}
			})
		}
	}
}

// checkTag marks a packet and says whether it has a mark, which then must have the right tag.
func checkTag(t *testing.T, s *Source, packet []byte) bool {
	t.Helper()
	out := run(t, s.entry, packet)
	original, m, encoding, err := codec.Extract(out, wire.Port)
	if err != nil {
		return false
	}
	if !m.Tagged {
		t.Fatalf("%x became %x: no tag", packet, out)
	}
	want, err := codec.Tag(original, encoding, m, codec.Key(pairKey), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if m.Tag != want.Tag {
		t.Errorf("%v of %x: tag %08x, want %08x", encoding, packet, m.Tag, want.Tag)
	}
	return true
}

// TestKeysFollowTheDestination: packets without a key stay unmarked, the longest prefix
// counts, and a change of the keys changes the tags of running flows.
func TestKeysFollowTheDestination(t *testing.T) {
	for _, name := range []string{"udp-option delay,loss ipv4 udp", "native delay,loss ipv6 tcp", "udp delay,loss ipv4 tcp", "ioam-e2e delay,loss ipv6 udp"} {
		t.Run(name, func(t *testing.T) {
			var packet []byte
			vectors, err := codec.Vectors()
			if err != nil {
				t.Fatal(err)
			}
			var encoding wire.Encoding
			for _, v := range vectors {
				if v.Name == name {
					packet, encoding = v.Original, v.Encoding
				}
			}
			settings := all(encoding, wire.Delay|wire.Loss)
			settings.Tagged = true
			s := open(t, settings)
			if got := s.outcome(t, packet); got != "no_key" {
				t.Errorf("without a key: %s", got)
			}
			to := keyOf(packet).Dst
			narrow, other := wire.Key{1}, wire.Key{2}
			keys := map[netip.Prefix]wire.Key{netip.PrefixFrom(to, to.BitLen()): narrow}
			for _, prefix := range everywhere {
				keys[prefix] = pairKey
			}
			for _, step := range []wire.Key{narrow, other, pairKey} {
				if step == pairKey {
					delete(keys, netip.PrefixFrom(to, to.BitLen()))
				} else {
					keys[netip.PrefixFrom(to, to.BitLen())] = step
				}
				if err := s.SetKeys(keys); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					m := s.mark(t, packet)
					want, err := codec.Tag(packet, encoding, m, codec.Key(step), time.Now())
					if err != nil || m.Tag != want.Tag {
						t.Errorf("tag %08x, want %08x (%v)", m.Tag, want.Tag, err)
					}
				}
			}
			if err := s.SetKeys(nil); err != nil {
				t.Fatal(err)
			}
			if got := s.outcome(t, packet); got != "no_key" {
				t.Errorf("once the keys are gone: %s", got)
			}
		})
	}
}

// TestTagsByRule: whether marks to one destination have a tag is a matter of the rule that selects the
// packet, also in the fast path and after a change.
func TestTagsByRule(t *testing.T) {
	for _, encoding := range []wire.Encoding{wire.UDPOption, wire.Native, wire.UDP} {
		t.Run(encoding.String(), func(t *testing.T) {
			policy := Policy{Modules: wire.Delay | wire.Loss, Encodings: wire.EncodingList{encoding}, Marking: wire.Marking{StampEvery: 4}}
			with := policy
			with.Tagged = true
			s := open(t, Settings{Policy: Policy{Modules: policy.Modules, Encodings: policy.Encodings, Marking: wire.Marking{StampEvery: 4}}, StartEmpty: true})
			packet := func(dport uint16) []byte {
				if encoding == wire.UDP {
					return ipv4("192.0.2.1", "198.51.100.2", 17, ported(7, dport, []byte("x")))
				}
				return ipv6("2001:db8::1", "2001:db8::2", 17, ported(7, dport, []byte("x")))
			}
			for range 2 {
				s.setPoliciesOf(t, []Policy{policy, with}, []Rule{toPort(1001, 0), toPort(1002, 1)})
				if got := s.outcome(t, packet(1002)); got != "no_key" {
					t.Errorf("without a key: %s", got)
				}
				if err := s.SetKeys(map[netip.Prefix]wire.Key{everywhere[0]: pairKey, everywhere[1]: pairKey}); err != nil {
					t.Fatal(err)
				}
				for range 6 {
					if m, _ := s.markOf(t, packet(1001)); m.Modules == 0 || m.Tagged {
						t.Errorf("without authentication: %+v", m)
					}
					if !checkTag(t, s, packet(1002)) {
						t.Error("with authentication: not marked")
					}
				}
				s.setPoliciesOf(t, []Policy{policy, with}, []Rule{toPort(1001, 1), toPort(1002, 0)})
				if m, _ := s.markOf(t, packet(1002)); m.Modules == 0 || m.Tagged {
					t.Errorf("no authentication any more: %+v", m)
				}
				if !checkTag(t, s, packet(1001)) {
					t.Error("authentication from now on: not marked")
				}
				if err := s.SetKeys(nil); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
