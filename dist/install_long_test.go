//go:build long

package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongInstall: make install with PREFIX and DESTDIR installs everything there, and a second
// time keeps the settings.
func TestLongInstall(t *testing.T) {
	root := t.TempDir()
	install := func() {
		t.Helper()
		if out, err := exec.Command("make", "--no-print-directory", "install", "PREFIX=/usr/local", "DESTDIR="+root).CombinedOutput(); err != nil {
			t.Fatalf("make install: %v\n%s", err, out)
		}
	}
	install()
	settings := filepath.Join(root, "etc/pillion/agent.env")
	if err := os.WriteFile(settings, []byte("PILLION_SERVER=noc.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	install()
	for path, contains := range map[string]string{
		"etc/pillion/agent.env":                                  "noc.example",
		"etc/pillion/server.env":                                 "",
		"usr/local/lib/systemd/system/pillion-agent.service":     "ExecStart=!/usr/local/bin/pillion-agent run",
		"usr/local/lib/systemd/system/pillion-server.service":    "/usr/local/bin/pillion-server",
		"usr/local/lib/sysusers.d/pillion-agent.conf":            "pillion",
		"usr/local/lib/sysusers.d/pillion-server.conf":           "pillion-server",
		"usr/local/share/man/man1/pillion.1.gz":                  "",
		"usr/local/share/man/man8/pillion-agent.8.gz":            "",
		"usr/local/share/man/man8/pillion-server.8.gz":           "",
		"usr/local/share/bash-completion/completions/pillion":    "/usr/local/bin/pillion",
		"usr/local/share/fish/vendor_completions.d/pillion.fish": "/usr/local/bin/pillion",
		"usr/local/share/zsh/site-functions/_pillion":            "#compdef pillion",
		"usr/local/lib/libpillion.so.1":                          "",
		"usr/local/lib/libpillion.a":                             "",
		"usr/local/lib/pkgconfig/pillion.pc":                     "prefix=/usr/local",
		"usr/local/include/oml2/omlc.h":                          "omlc_init",
	} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !strings.Contains(string(text), contains) {
			t.Errorf("%s: %v, want %q in it", path, err, contains)
		}
	}
	for _, name := range []string{"pillion", "pillion-agent", "pillion-server"} {
		if out, err := exec.Command(filepath.Join(root, "usr/local/bin", name), "--help").CombinedOutput(); err != nil || !strings.Contains(string(out), "Usage: "+name) {
			t.Errorf("%s --help: %v, %.200s", name, err, out)
		}
	}
}
