package policy

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func policyOf(t *testing.T, text string) *Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAdmit(t *testing.T) {
	for _, row := range []struct {
		name, file, target, protocol string
		bits, packets                int64
		want                         string // part of the reason; empty: admitted
	}{
		{"default", "", "192.0.2.1", "udp", 10_000_000, 1000, ""},
		{"default, IPv6", "", "2001:db8::1", "icmp", 1, 1, ""},
		{"default rate", "", "192.0.2.1", "udp", 10_000_001, 1, "10.000001 Mbit/s exceed the limit of 10 Mbit/s, of which other tasks use 0 bit/s"},
		{"default packets", "", "192.0.2.1", "udp", 1, 1001, "limit of 1000 packets/s"},
		{"default protocols", "", "192.0.2.1", "tcp", 1, 1, "protocol tcp"},
		{"rate", "sending: {rate: 50M}", "192.0.2.1", "udp", 50_000_000, 1000, ""},
		{"packets", "sending: {packets_per_second: 5}", "192.0.2.1", "udp", 1, 6, "limit of 5 packets/s"},
		{"protocols", "sending: {protocols: [tcp]}", "192.0.2.1", "tcp", 1, 1, ""},
		{"protocols replace the defaults", "sending: {protocols: [tcp]}", "192.0.2.1", "udp", 1, 1, "protocol udp"},
		{"forbidden", "sending: {allowed: false}", "192.0.2.1", "udp", 1, 1, "not allowed"},
		{"target", "sending: {targets: [192.0.2.77/24]}", "192.0.2.1", "udp", 1, 1, ""},
		{"another target", "sending: {targets: [192.0.2.0/24, '2001:db8::/32']}", "198.51.100.1", "udp", 1, 1, "in none of the targets"},
		{"multicast", "", "224.0.0.1", "udp", 1, 1, "not the unicast address"},
		{"multicast, IPv6", "", "ff02::1", "udp", 1, 1, "not the unicast address"},
		{"broadcast", "", "255.255.255.255", "udp", 1, 1, "not the unicast address"},
		{"loopback", "", "127.0.0.1", "udp", 1, 1, "not the unicast address"},
		{"unspecified", "", "0.0.0.0", "udp", 1, 1, "not the unicast address"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := policyOf(t, row.file).Admit(Request{netip.MustParseAddr(row.target), row.protocol, row.bits, row.packets})
			if (err == nil) != (row.want == "") || err != nil && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

// TestLimitsAreShared: limits hold for all tasks together, and end with them.
func TestLimitsAreShared(t *testing.T) {
	p := Default()
	r := Request{netip.MustParseAddr("192.0.2.1"), "udp", 6_000_000, 300}
	first, err := p.Admit(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Admit(r); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "of which other tasks use 6 Mbit/s") {
		t.Fatalf("second task: %v", err)
	}
	first()
	second, err := p.Admit(r)
	if err != nil {
		t.Fatal(err)
	}
	second()
	second() // releasing twice changes nothing
	if len(p.admitted) != 0 {
		t.Errorf("%d requests remain", len(p.admitted))
	}
}

func TestFile(t *testing.T) {
	for name, row := range map[string]struct{ text, want string }{
		"unknown key":      {"sending:\n  burst: 5\n", "line 2"},
		"protocol":         {"sending: {protocols: [sctp]}", "unknown protocol"},
		"target":           {"sending: {targets: [example.net]}", "not a prefix"},
		"rate":             {"sending: {rate: 0}", "must be greater than 0"},
		"packets":          {"sending: {packets_per_second: -1}", "must be greater than 0"},
		"another document": {"sending: {}\n---\nsending: {}\n", "more than one document"},
	} {
		if _, err := parse([]byte(row.text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestEmptyAndZeroPermitNothing: a list without entries permits none, and 0 is no way to say
// that there is no limit.
func TestEmptyAndZeroPermitNothing(t *testing.T) {
	p, err := parse([]byte("sending: {targets: []}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Admit(Request{Target: netip.MustParseAddr("192.0.2.1"), Protocol: "udp", BitsPerSecond: 1, PacketsPerSecond: 1}); !errors.Is(err, ErrRefused) {
		t.Errorf("sends to %v", err)
	}
	for text, want := range map[string]string{
		"marking:\n  packets_per_second: 0": "line 2: marking.packets_per_second: must be greater than 0",
		"marking: {every: 0}":               "line 1: marking.every: must be greater than 0",
		"sending: {rate: 0}":                "line 1: sending.rate: must be greater than 0",
		"prefixes: [x]":                     `line 1: prefixes: "x" is not a prefix`,
		"decapsulation: maybe":              `line 1: "maybe" is not true or false`,
	} {
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
