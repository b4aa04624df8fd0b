package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// plain packets have a rule's five fields and nothing in the way of a mark.
func (v variety) plain() []byte {
	protocol := []uint8{6, 17, 132, 1, 200}[v.IntN(5)]
	behind := ported(v.port(), uint16(1000+v.IntN(3)), make([]byte, 16))
	if protocol == 6 {
		behind[12] = 5 << 4
	}
	if v.IntN(2) == 0 {
		return ipv6(v.pick(hosts6), v.pick(hosts6), protocol, behind)
	}
	return ipv4(v.pick(hosts4), v.pick(hosts4), protocol, behind)
}

func (v variety) rule() fivetuple.Filter {
	var r fivetuple.Filter
	hosts := hosts4
	if v.IntN(2) == 0 {
		hosts = hosts6
	}
	prefix := func() netip.Prefix {
		addr := netip.MustParseAddr(v.pick(hosts))
		return netip.PrefixFrom(addr, v.IntN(addr.BitLen()+1)).Masked()
	}
	if v.IntN(2) == 0 {
		r.Src = prefix()
	}
	if v.IntN(2) == 0 {
		r.Dst = prefix()
	}
	if v.IntN(2) == 0 {
		r.HasProtocol, r.Protocol = true, []uint8{6, 17, 132, 1, 200, 0}[v.IntN(6)]
	}
	if v.IntN(4) == 0 {
		r.Sport = v.port() | 1
	}
	if v.IntN(4) == 0 {
		r.Dport = uint16(1000 + v.IntN(3))
	}
	return r
}

// TestRulesAgainstReference compares the program with a matcher of one line.
func TestRulesAgainstReference(t *testing.T) {
	v := variety{Rand: rand.New(rand.NewPCG(9, 9))}
	for _, n := range []int{0, 1, 2, 5, 63, RulesMax} {
		t.Run(fmt.Sprint(n, " rules"), func(t *testing.T) {
			settings := all(wire.Shim, wire.Delay)
			for range n {
				settings.Rules = append(settings.Rules, v.rule())
			}
			s := open(t, settings)
			matched := 0
			for range 400 {
				packet := v.plain()
				want := "no_match"
				if n == 0 || slices.ContainsFunc(settings.Rules, func(r fivetuple.Filter) bool { return r.Matches(keyOf(packet)) }) {
					want = "marked"
					matched++
				}
				if got := s.outcome(t, packet); got != want {
					t.Fatalf("%+v ended as %s, want %s; rules %+v", keyOf(packet), got, want, settings.Rules)
				}
			}
			if tally := s.mustTally(t); tally.Matched != uint64(matched) {
				t.Errorf("%d matched, the tally says %d", matched, tally.Matched)
			}
		})
	}
}

func TestTooManyRules(t *testing.T) {
	settings := all(wire.UDP, wire.Delay)
	settings.Rules = make([]fivetuple.Filter, RulesMax+1)
	if _, err := specification(hookDevice, settings, 0); !errors.Is(err, fivetuple.ErrFilter) {
		t.Errorf("got %v, want %v", err, fivetuple.ErrFilter)
	}
}

// TestSetRulesRepeatedly turns the rules and targets of one source over and over.
func TestSetRulesRepeatedly(t *testing.T) {
	v := variety{Rand: rand.New(rand.NewPCG(3, 9))}
	settings := all(wire.Shim, wire.Delay)
	settings.StartEmpty = true
	s := open(t, settings)
	if got := s.outcome(t, v.plain()); got != "no_match" {
		t.Errorf("before the first choice a packet ended as %s", got)
	}
	for round, n := range []int{3, 0, RulesMax, 1, 8, 2} {
		var rules []fivetuple.Filter
		for range n {
			rules = append(rules, v.rule())
		}
		var targets []netip.Addr
		if round%2 == 1 {
			rules = append(rules[:min(n, RulesMax-1)], fivetuple.Filter{})
			targets = []netip.Addr{keyOf(v.plain()).Dst, keyOf(v.plain()).Dst}
		}
		if err := s.SetRules(rules, targets); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			packet := v.plain()
			key, want := keyOf(packet), "no_match"
			if slices.ContainsFunc(rules, func(r fivetuple.Filter) bool { return r.Matches(key) }) &&
				(len(targets) == 0 || slices.Contains(targets, key.Dst)) {
				want = "marked"
			}
			if got := s.outcome(t, packet); got != want {
				t.Fatalf("round %d: %+v ended as %s, want %s", round, key, got, want)
			}
		}
	}
	if err := s.SetRules(make([]fivetuple.Filter, RulesMax+1), nil); !errors.Is(err, fivetuple.ErrFilter) {
		t.Errorf("got %v, want %v", err, fivetuple.ErrFilter)
	}
}

func parseAll(t *testing.T, texts []string) []fivetuple.Filter {
	t.Helper()
	filters := make([]fivetuple.Filter, len(texts))
	for i, text := range texts {
		if err := filters[i].UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return filters
}
