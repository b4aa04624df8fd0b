//go:build long

package lab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLongShortCertificates: an agent renews its certificate in time, unless it is away for
// too long.
func TestLongShortCertificates(t *testing.T) {
	t.Parallel() // it mostly waits
	config := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(config, []byte("agent_certificates: 27s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := service(t, threeHosts+"  options: [--config, "+config+"]\n")
	first, _ := b.expiry("a")
	eventually(t, "a to live longer than its first certificates", func() bool {
		now, connected := b.expiry("a")
		return connected && now.After(first.Add(27*time.Second)) && time.Now().After(first.Add(time.Second))
	})
	if log := b.log("agent-a"); strings.Contains(log, "renew certificate") {
		t.Errorf("a could not renew:\n%s", log)
	}
	// Killed while it renews, b would rightly ask again with the new key, which holds its name.
	eventually(t, "b not to be about to renew", func() bool {
		expires, _ := b.expiry("b")
		left := time.Until(expires)
		return left > 15*time.Second && left < 22*time.Second
	})
	b.kill("agent-b")
	expires, _ := b.expiry("b")
	eventually(t, "b's certificate to expire", func() bool { return time.Now().After(expires.Add(time.Second)) })
	b.start("agent-b")
	b.says("agent-b", "expired on")
	b.says("agent-b", "revoke and delete it first")
	b.balances("a", 0)
}
