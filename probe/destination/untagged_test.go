package destination

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// mixed is a peer with a key of which some rules want no tag.
func mixed(rules ...Rule) Peers { return Peers{{}: {Keys: []wire.Key{pairKey}, Rules: rules}} }

func ruleOf(t *testing.T, text string, untagged bool) Rule {
	t.Helper()
	return Rule{Filter: filters(t, text)[0], Untagged: untagged}
}

func withoutTag(m *codec.Mark) { m.Tagged, m.Tag = false, 0 }

// TestRulesWithoutAuthentication: sessions of the same peer have authentication or not. A mark without
// a tag counts in packets that no session with authentication measures, and in no others.
func TestRulesWithoutAuthentication(t *testing.T) {
	tcp, udp := ruleOf(t, "proto=tcp", false), ruleOf(t, "proto=udp", true)
	d := open(t, Settings{Peers: mixed(tcp, udp)})
	for _, row := range []struct {
		name             string
		rules            []Rule
		tagged, untagged map[bool]string // by whether the packet is of TCP: the verdict on marks with a right tag, and without
	}{
		{"apart", []Rule{tcp, udp}, map[bool]string{true: "marked", false: "marked"}, map[bool]string{true: "forged", false: "marked"}},
		{"one rule in both ways", []Rule{udp, {Filter: udp.Filter}}, map[bool]string{true: "filter", false: "marked"}, map[bool]string{true: "filter", false: "forged"}},
		{"authentication of all packets", []Rule{udp, {}}, map[bool]string{true: "marked", false: "marked"}, map[bool]string{true: "forged", false: "forged"}},
		{"none but of TCP", []Rule{tcp, {Untagged: true}}, map[bool]string{true: "marked", false: "marked"}, map[bool]string{true: "forged", false: "marked"}},
		{"without authentication only", []Rule{udp}, map[bool]string{true: "filter", false: "marked"}, map[bool]string{true: "filter", false: "marked"}},
		{"all", nil, map[bool]string{true: "marked", false: "marked"}, map[bool]string{true: "forged", false: "forged"}},
	} {
		if err := d.Accept(mixed(row.rules...), nil); err != nil {
			t.Fatal(err)
		}
		for name, w := range taggers(t) {
			isTCP := keyOf(w.packet).Protocol == 6
			for hook := range 2 {
				for number := range uint32(3) { // the next ones may be counted the short way
					timed := number == 0
					if got, want := d.verdict(t, hook, w.write(t, 7+number, timed, time.Now(), withoutTag)), row.untagged[isTCP]; got != want {
						t.Errorf("%s: %s, number %d without a tag: %s, want %s", row.name, name, number, got, want)
					}
					if got, want := d.verdict(t, hook, w.write(t, 7+number, timed, time.Now())), row.tagged[isTCP]; got != want {
						t.Errorf("%s: %s, number %d: %s, want %s", row.name, name, number, got, want)
					}
				}
				for key, flow := range d.takeFlows(t) {
					if want := row.untagged[key.Protocol == 6] == "forged"; flow.Keyed != 0 != want {
						t.Errorf("%s: flow of %v is keyed %d, want %t", row.name, key, flow.Keyed, want)
					}
				}
			}
		}
	}
}

// TestRulesBeginToAuthenticate: a run of a flow without tags ends when its rule wants them.
func TestRulesBeginToAuthenticate(t *testing.T) {
	tcp, udp := ruleOf(t, "proto=tcp", false), ruleOf(t, "proto=udp", true)
	d := open(t, Settings{Peers: mixed(tcp, udp)})
	w := taggers(t)["udp-option ipv4 udp"]
	number := uint32(0)
	next := func(want string, changes ...func(*codec.Mark)) {
		t.Helper()
		if got := d.verdict(t, 0, w.write(t, number, number == 0, time.Now(), changes...)); got != want {
			t.Errorf("number %d: %s, want %s", number, got, want)
		}
		number++
	}
	for range 4 {
		next("marked", withoutTag)
	}
	udp.Untagged = false
	if err := d.Accept(mixed(tcp, udp), nil); err != nil {
		t.Fatal(err)
	}
	next("forged", withoutTag)
	number--
	for range 4 {
		next("marked")
		next("forged", withoutTag)
		number--
	}
}

// TestAggregatesBesideAuthentication: a session by addresses without authentication, beside one of
// five-tuples with it: a mark is of the flow whose rule selects its packet, whatever it says itself.
func TestAggregatesBesideAuthentication(t *testing.T) {
	tcp, udp := ruleOf(t, "proto=tcp", false), ruleOf(t, "proto=udp", true)
	tcp.Flow, udp.Flow = flow.All, flow.Src|flow.Dst
	d := open(t, Settings{Peers: mixed(tcp, udp), FlowsDiffer: true})
	aggregate := func(m *codec.Mark) { m.Aggregate = uint8(flow.Src | flow.Dst) }
	for name, w := range taggers(t) {
		if w.encoding != wire.Native && w.encoding != wire.Shim {
			continue
		}
		want, flows := "marked", 1
		if keyOf(w.packet).Protocol == 6 {
			want, flows = "forged", 0
		}
		if got := d.verdict(t, 0, w.write(t, 7, true, time.Now(), withoutTag, aggregate)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if got := len(d.takeFlows(t)); got != flows {
			t.Errorf("%s: %d flows, want %d", name, got, flows)
		}
	}
}

// TestProbesWithoutAuthentication: a path probe asks whether marks like its own are read for any session.
func TestProbesWithoutAuthentication(t *testing.T) {
	tcp, udp := ruleOf(t, "proto=tcp", false), ruleOf(t, "proto=udp", true)
	read := func(peer Peer, change func(*codec.Mark)) wire.ProbeRead {
		t.Helper()
		d := openTC(t, Settings{Peers: Peers{netip.MustParsePrefix("192.0.2.0/24"): peer}})
		w := tagger{probePacket(false), wire.UDPOption, pairKey}
		out := run(t, d.objects.DestinationTc, w.write(t, 0, true, time.Now(), change), 0)
		return wire.ProbeRead(binary.BigEndian.Uint16(out[14+20+8+4:]))
	}
	keys := []wire.Key{pairKey}
	for _, row := range []struct {
		name   string
		peer   Peer
		change func(*codec.Mark)
		want   wire.ProbeRead
	}{
		{"tag", Peer{Keys: keys, Rules: []Rule{tcp, udp}}, func(*codec.Mark) {}, wire.ProbeMarkRead},
		{"no tag", Peer{Keys: keys, Rules: []Rule{tcp, udp}}, withoutTag, wire.ProbeMarkRead},
		{"wrong tag", Peer{Keys: keys, Rules: []Rule{tcp, udp}}, func(m *codec.Mark) { m.Tag++ }, wire.ProbeMalformed},
		{"no tag, all authenticated", Peer{Keys: keys, Rules: []Rule{tcp}}, withoutTag, wire.ProbeMalformed},
	} {
		if got := read(row.peer, row.change); got != row.want {
			t.Errorf("%s: says %d, want %d", row.name, got, row.want)
		}
	}
}
