package source

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"pillion.dev/wire"
)

func TestParseRule(t *testing.T) {
	p := netip.MustParsePrefix
	rows := []struct {
		name, text string
		want       Rule
	}{
		{"source prefix", "src=192.0.2.0/24", Rule{Src: p("192.0.2.0/24")}},
		{"address is a whole prefix", "dst=2001:db8::1", Rule{Dst: p("2001:db8::1/128")}},
		{"host bits are cut", "src=192.0.2.77/24", Rule{Src: p("192.0.2.0/24")}},
		{"protocol name", "proto=tcp", Rule{Protocol: 6, HasProtocol: true}},
		{"protocol number", "proto=200", Rule{Protocol: 200, HasProtocol: true}},
		{"protocol zero", "proto=0", Rule{HasProtocol: true}},
		{"ports", "sport=1 dport=65535", Rule{Sport: 1, Dport: 65535}},
		{"all, in any order", " dport=53 proto=udp  dst=10.0.0.0/8 sport=5 src=10.1.0.0/16 ",
			Rule{Src: p("10.1.0.0/16"), Dst: p("10.0.0.0/8"), Protocol: 17, HasProtocol: true, Sport: 5, Dport: 53}},
		{"default route", "dst=::/0", Rule{Dst: p("::/0")}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := ParseRule(row.text)
			if err != nil || got != row.want {
				t.Errorf("got %+v, %v; want %+v", got, err, row.want)
			}
		})
	}
}

func TestParseRuleRefuses(t *testing.T) {
	rows := []struct{ name, text string }{
		{"empty", ""},
		{"blanks", " \t "},
		{"no value", "src"},
		{"unknown field", "port=80"},
		{"twice", "sport=1 sport=2"},
		{"two families", "src=10.0.0.1 dst=2001:db8::1"},
		{"port zero", "dport=0"},
		{"port too large", "dport=65536"},
		{"negative port", "dport=-1"},
		{"signed port", "dport=+1"},
		{"protocol too large", "proto=256"},
		{"protocol with blanks behind", "proto=6x"},
		{"unknown protocol", "proto=quic"},
		{"prefix too long", "src=10.0.0.0/33"},
		{"zone", "dst=fe80::1%eth0"},
		{"IPv4 in IPv6", "dst=::ffff:192.0.2.1"},
		{"IPv4 in IPv6 with a length", "dst=::ffff:192.0.2.1/128"},
		{"host name", "dst=example.org"},
		{"empty value", "dst="},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if got, err := ParseRule(row.text); !errors.Is(err, ErrRule) {
				t.Errorf("got %+v, %v; want %v", got, err, ErrRule)
			}
		})
	}
}

func FuzzParseRule(f *testing.F) {
	f.Add("src=192.0.2.0/24 dst=198.51.100.2 proto=tcp sport=1 dport=80")
	f.Add("dst=2001:db8::/32 proto=0")
	f.Add("src=::ffff:10.0.0.1/96")
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := ParseRule(text)
		if err != nil {
			return
		}
		again, err := ParseRule(ruleText(rule))
		if err != nil || again != rule {
			t.Errorf("%q is %+v, %q is %+v, %v", text, rule, ruleText(rule), again, err)
		}
		raw := rule.raw()
		if !rule.Src.IsValid() && !rule.Dst.IsValid() && raw.Family != 0 {
			t.Errorf("%q: family %d without an address", text, raw.Family)
		}
	})
}

func ruleText(r Rule) string {
	text := ""
	if r.Src.IsValid() {
		text += fmt.Sprintf("src=%v ", r.Src)
	}
	if r.Dst.IsValid() {
		text += fmt.Sprintf("dst=%v ", r.Dst)
	}
	if r.HasProtocol {
		text += fmt.Sprintf("proto=%d ", r.Protocol)
	}
	if r.Sport != 0 {
		text += fmt.Sprintf("sport=%d ", r.Sport)
	}
	if r.Dport != 0 {
		text += fmt.Sprintf("dport=%d", r.Dport)
	}
	return text
}

func TestCombine(t *testing.T) {
	rows := []struct {
		name      string
		rules, to []string
		want      []string
	}{
		{"nothing", nil, nil, nil},
		{"no destinations", []string{"sport=1"}, nil, []string{"sport=1"}},
		{"no rules", nil, []string{"10.0.0.0/8", "2001:db8::/32"}, []string{"dst=10.0.0.0/8", "dst=2001:db8::/32"}},
		{"each with each", []string{"sport=1", "sport=2"}, []string{"10.0.0.1/32", "10.0.0.2/32"},
			[]string{"dst=10.0.0.1/32 sport=1", "dst=10.0.0.2/32 sport=1", "dst=10.0.0.1/32 sport=2", "dst=10.0.0.2/32 sport=2"}},
		{"destination is narrower", []string{"dst=10.0.0.0/8"}, []string{"10.1.0.0/16"}, []string{"dst=10.1.0.0/16"}},
		{"rule is narrower", []string{"dst=10.1.2.3"}, []string{"10.1.0.0/16"}, []string{"dst=10.1.2.3"}},
		{"apart ones go", []string{"dst=10.1.2.3", "dst=10.2.0.1"}, []string{"10.1.0.0/16"}, []string{"dst=10.1.2.3"}},
		{"other families go", []string{"src=10.1.2.3"}, []string{"2001:db8::/32", "10.0.0.0/8"}, []string{"src=10.1.2.3 dst=10.0.0.0/8"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := Combine(parseAll(t, row.rules), prefixes(row.to))
			if err != nil || !slices.Equal(got, parseAll(t, row.want)) {
				t.Errorf("got %+v, %v; want %v", got, err, row.want)
			}
		})
	}
	if got, err := Combine(parseAll(t, []string{"dst=10.1.2.3"}), prefixes([]string{"10.2.0.0/16"})); !errors.Is(err, ErrRule) {
		t.Errorf("got %v, %v of what nothing can fit", got, err)
	}
}

func parseAll(t *testing.T, texts []string) []Rule {
	t.Helper()
	var rules []Rule
	for _, text := range texts {
		rule, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	return rules
}

func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// fits is the plain meaning of a rule.
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

func (v variety) rule() Rule {
	var r Rule
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

// TestRulesAgainstTheirMeaning compares the program with a matcher of one line.
func TestRulesAgainstTheirMeaning(t *testing.T) {
	v := variety{rand.New(rand.NewPCG(9, 9))}
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
				if n == 0 || slices.ContainsFunc(settings.Rules, func(r Rule) bool { return r.Fits(keyOf(packet)) }) {
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
	settings.Rules = make([]Rule, RulesMax+1)
	if _, err := specification(hookDevice, settings); !errors.Is(err, ErrRule) {
		t.Errorf("got %v, want %v", err, ErrRule)
	}
}

// TestChooseAgain turns the rules and targets of one source over and over.
func TestChooseAgain(t *testing.T) {
	v := variety{rand.New(rand.NewPCG(3, 9))}
	settings := all(wire.Shim, wire.Delay)
	settings.StartEmpty = true
	s := open(t, settings)
	if got := s.outcome(t, v.plain()); got != "no_match" {
		t.Errorf("before the first choice a packet ended as %s", got)
	}
	for round, n := range []int{3, 0, RulesMax, 1, 8, 2} {
		var rules []Rule
		for range n {
			rules = append(rules, v.rule())
		}
		var targets []netip.Addr
		if round%2 == 1 {
			rules = append(rules[:min(n, RulesMax-1)], Rule{})
			targets = []netip.Addr{keyOf(v.plain()).Dst, keyOf(v.plain()).Dst}
		}
		if err := s.SetRules(rules, targets); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			packet := v.plain()
			key, want := keyOf(packet), "no_match"
			if slices.ContainsFunc(rules, func(r Rule) bool { return r.Fits(key) }) &&
				(len(targets) == 0 || slices.Contains(targets, key.Dst)) {
				want = "marked"
			}
			if got := s.outcome(t, packet); got != want {
				t.Fatalf("round %d: %+v ended as %s, want %s", round, key, got, want)
			}
		}
	}
	if err := s.SetRules(make([]Rule, RulesMax+1), nil); !errors.Is(err, ErrRule) {
		t.Errorf("got %v, want %v", err, ErrRule)
	}
}
