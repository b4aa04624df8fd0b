package quota

import "testing"

// TestSourceOf: an IPv6 host has all addresses of its subnet.
func TestSourceOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7:1": "192.0.2.7", "192.0.2.7": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8::1:2:3:4]:1": "2001:db8::/64",
		"[2001:db8::9]:2": "2001:db8::/64", "2001:db8::9": "2001:db8::/64", "[fe80::1%eth0]:2": "fe80::/64", "[::1]:5": "::1", "pipe": "pipe",
	} {
		if got := SourceOf(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
