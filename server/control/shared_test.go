package control

import (
	"strings"
	"testing"
	"time"

	"pillion.dev/session"
)

// TestNoUsableAddress checks that a session whose agents cannot be told apart, such as two
// on one host, or have no address that it marks, is degraded from its first round, for
// that reason.
func TestNoUsableAddress(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*session.Spec, *host)
		reason string
	}{
		{"the same address", func(_ *session.Spec, h2 *host) { h2.address = "10.0.0.1" },
			"h2 has no usable address: other agents report the same ones"},
		{"loopback only", func(_ *session.Spec, h2 *host) { h2.address = "127.0.0.2" }, "h2 has no usable address: it reports none"},
		{"another family", func(s *session.Spec, _ *host) { s.Family = "ipv6" }, "h1 has no usable address: none that is marked with family ipv6"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bed(t, func(b *testbed) {
				b.join("h1", "h2")
				spec := web()
				b.on("h2", func(h2 *host) { row.change(&spec, h2) })
				b.pass(time.Second)
				b.create(spec)
				b.pass(100 * time.Millisecond)
				s, err := b.control.Session("web")
				if err != nil || s.State != Degraded || !strings.HasPrefix(s.Reason, row.reason) {
					t.Errorf("state %s, reason %q, error %v", s.State, s.Reason, err)
				}
				b.on("h2", func(h2 *host) { h2.address = "10.0.0.2" })
				if row.name != "another family" {
					b.state("web", Running)
				}
			})
		})
	}
}
