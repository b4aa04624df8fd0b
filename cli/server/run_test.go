package server

import (
	"net"
	"strings"
	"testing"

	"pillion.dev/server"
)

// TestWelcome: hosts join at an address of the server, not at a name that they may not resolve.
func TestWelcome(t *testing.T) {
	own := "ADDRESS-OF-THIS-HOST" // a namespace without a network has none
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if prefix, ok := address.(*net.IPNet); ok && prefix.IP.IsGlobalUnicast() {
			own = prefix.IP.String()
			break
		}
	}
	for _, test := range []struct {
		name, listen string
		hosts        []string
		want         string
	}{
		{"all addresses", "[::]:8470", nil, net.JoinHostPort(own, "8470")},
		{"all IPv4 addresses", "0.0.0.0:8470", nil, net.JoinHostPort(own, "8470")},
		{"host names", "[::]:8470", []string{"noc.example", "192.0.2.1"}, "noc.example:8470"},
		{"one address", "192.0.2.1:9000", []string{"noc.example"}, "192.0.2.1:9000"},
		{"one IPv6 address", "[2001:db8::1]:9000", nil, "[2001:db8::1]:9000"},
		{"loopback", "127.0.0.1:9000", nil, "127.0.0.1:9000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			w := server.Welcome{First: true, HTTP: test.listen, AdminFile: "admin.token"}
			welcome(&out, w, reachable(w.HTTP, test.hosts))
			if want := "  pillion-agent run --server " + test.want + " --token-file join.token\n"; !strings.Contains(out.String(), want) {
				t.Errorf("want %q, got\n%s", want, out.String())
			}
			if strings.Contains(out.String(), "%!") {
				t.Errorf("format: %s", out.String())
			}
		})
	}
}
