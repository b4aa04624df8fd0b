package service

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestReserved: the addresses of the server, by all ways to learn them, and of DNS servers.
func TestReserved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# comment\nsearch example.net\nnameserver 192.0.2.53\nnameserver fe80::1%eth0\nnameserver\nnameserver example.net\noptions edns0\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := resolvers
	resolvers = []string{path, filepath.Join(t.TempDir(), "none")}
	t.Cleanup(func() { resolvers = before })
	var told map[netip.Addr]string
	changes := 0
	remote := "198.51.100.7:8471"
	r := &reserved{
		urls:      func() []string { return []string{"tls://192.0.2.1:8471", "[2001:db8::1]:8470", "https://192.0.2.2"} },
		connected: func() string { return remote },
		changed:   func(addresses map[netip.Addr]string) { told, changes = addresses, changes+1 },
		log:       slog.New(slog.DiscardHandler),
	}
	r.refresh(t.Context())
	want := map[string]string{
		"192.0.2.53": "a DNS server of this host", "fe80::1": "a DNS server of this host",
		"192.0.2.1": "the address of the server", "2001:db8::1": "the address of the server",
		"192.0.2.2": "the address of the server", "198.51.100.7": "the address of the server",
	}
	if len(told) != len(want) {
		t.Errorf("got %v", told)
	}
	for text, what := range want {
		if told[netip.MustParseAddr(text)] != what {
			t.Errorf("%s is %q, want %q", text, told[netip.MustParseAddr(text)], what)
		}
	}
	r.refresh(t.Context())
	if remote = ""; changes != 1 {
		t.Errorf("%d changes", changes)
	}
	if r.refresh(t.Context()); changes != 2 {
		t.Errorf("%d changes after the connection", changes)
	}
	if got := []string{hostOf("noc.example:8470"), hostOf("tls://[::1]:8471"), hostOf("noc.example")}; !slices.Equal(got, []string{"noc.example", "::1", "noc.example"}) {
		t.Errorf("hosts %q", got)
	}
}
