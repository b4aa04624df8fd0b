package fivetuple

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func TestParseFilter(t *testing.T) {
	p := netip.MustParsePrefix
	rows := []struct {
		name, text string
		want       Filter
	}{
		{"source prefix", "src=192.0.2.0/24", Filter{Src: p("192.0.2.0/24")}},
		{"address is a whole prefix", "dst=2001:db8::1", Filter{Dst: p("2001:db8::1/128")}},
		{"host bits are cut", "src=192.0.2.77/24", Filter{Src: p("192.0.2.0/24")}},
		{"protocol name", "proto=tcp", Filter{Protocol: 6, HasProtocol: true}},
		{"protocol number", "proto=200", Filter{Protocol: 200, HasProtocol: true}},
		{"protocol zero", "proto=0", Filter{HasProtocol: true}},
		{"ports", "sport=1 dport=65535", Filter{Sport: 1, Dport: 65535}},
		{"all, in any order", " dport=53 proto=udp  dst=10.0.0.0/8 sport=5 src=10.1.0.0/16 ",
			Filter{Src: p("10.1.0.0/16"), Dst: p("10.0.0.0/8"), Protocol: 17, HasProtocol: true, Sport: 5, Dport: 53}},
		{"default route", "dst=::/0", Filter{Dst: p("::/0")}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := ParseFilter(row.text)
			if err != nil || got != row.want {
				t.Errorf("got %+v, %v; want %+v", got, err, row.want)
			}
		})
	}
}

func TestParseFilterRefuses(t *testing.T) {
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
			if got, err := ParseFilter(row.text); !errors.Is(err, ErrFilter) {
				t.Errorf("got %+v, %v; want %v", got, err, ErrFilter)
			}
		})
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add("src=192.0.2.0/24 dst=198.51.100.2 proto=tcp sport=1 dport=80")
	f.Add("dst=2001:db8::/32 proto=0")
	f.Add("src=::ffff:10.0.0.1/96")
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err != nil {
			return
		}
		again, err := ParseFilter(filter.String())
		if err != nil || again != filter {
			t.Errorf("%q is %+v, %q is %+v, %v", text, filter, filter, again, err)
		}
	})
}

func TestCombine(t *testing.T) {
	rows := []struct {
		name        string
		filters, to []string
		want        []string
	}{
		{"nothing", nil, nil, nil},
		{"no destinations", []string{"sport=1"}, nil, []string{"sport=1"}},
		{"no filters", nil, []string{"10.0.0.0/8", "2001:db8::/32"}, []string{"dst=10.0.0.0/8", "dst=2001:db8::/32"}},
		{"each with each", []string{"sport=1", "sport=2"}, []string{"10.0.0.1/32", "10.0.0.2/32"},
			[]string{"dst=10.0.0.1/32 sport=1", "dst=10.0.0.2/32 sport=1", "dst=10.0.0.1/32 sport=2", "dst=10.0.0.2/32 sport=2"}},
		{"destination is narrower", []string{"dst=10.0.0.0/8"}, []string{"10.1.0.0/16"}, []string{"dst=10.1.0.0/16"}},
		{"filter is narrower", []string{"dst=10.1.2.3"}, []string{"10.1.0.0/16"}, []string{"dst=10.1.2.3"}},
		{"apart ones go", []string{"dst=10.1.2.3", "dst=10.2.0.1"}, []string{"10.1.0.0/16"}, []string{"dst=10.1.2.3"}},
		{"other families go", []string{"src=10.1.2.3"}, []string{"2001:db8::/32", "10.0.0.0/8"}, []string{"src=10.1.2.3 dst=10.0.0.0/8"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, err := Combine(parseAll(t, row.filters), prefixes(row.to))
			if err != nil || !slices.Equal(got, parseAll(t, row.want)) {
				t.Errorf("got %+v, %v; want %v", got, err, row.want)
			}
		})
	}
	if got, err := Combine(parseAll(t, []string{"dst=10.1.2.3"}), prefixes([]string{"10.2.0.0/16"})); !errors.Is(err, ErrFilter) {
		t.Errorf("got %v, %v of what nothing can fit", got, err)
	}
}

func parseAll(t *testing.T, texts []string) []Filter {
	t.Helper()
	var filters []Filter
	for _, text := range texts {
		filter, err := ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		filters = append(filters, filter)
	}
	return filters
}

func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

func TestParseProtocol(t *testing.T) {
	for number := range 256 {
		if again, err := ParseProtocol(ProtocolName(uint8(number))); int(again) != number || err != nil {
			t.Errorf("%d is read as %d, %v", number, again, err)
		}
		if again, err := ParseProtocol(fmt.Sprint(number)); int(again) != number || err != nil {
			t.Errorf("%d is read as %d, %v", number, again, err)
		}
	}
	for _, text := range []string{"", "256", "-1", "+6", "06", "6 ", "6.0", "TCP", "tcp udp", "0x6"} {
		if number, err := ParseProtocol(text); err == nil {
			t.Errorf("%q is read as %d", text, number)
		}
	}
}

func FuzzParseProtocol(f *testing.F) {
	f.Add("tcp")
	f.Add("200")
	f.Fuzz(func(t *testing.T, text string) {
		number, err := ParseProtocol(text)
		if err == nil && text != ProtocolName(number) && text != fmt.Sprint(number) {
			t.Errorf("%q is read as %d", text, number)
		}
	})
}
