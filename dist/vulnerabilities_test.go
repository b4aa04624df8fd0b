package dist

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestVulnerabilities: the check fails because of a known vulnerability, not because a
// database cannot be reached, which has an exit code of its own. The programs that ask
// the databases are replaced.
func TestVulnerabilities(t *testing.T) {
	const (
		clean        = "exit 0"
		unresolved   = `echo 'govulncheck: fetching vulnerabilities: Get "https://db": dial tcp: no such host'; exit 1`
		called       = "echo 'Vulnerability #1: GO-2026-0001'; exit 3"
		notCompiling = "echo 'main.go:1: syntax error'; exit 1"
		audited      = `echo '{"auditReportVersion": 2}'; exit 1`
		refused      = `echo 'npm warn audit 405 Method Not Allowed' >&2; echo '{"statusCode": 405}'; exit 1`
	)
	for _, row := range []struct {
		name, goTool, npm string
		exit              int
		says              string
	}{
		{"none known", clean, clean, 0, "Go modules: none known"},
		{"in a module", called, clean, 1, "GO-2026-0001"},
		{"in a package", clean, audited, 1, ""},
		{"Go's database unreachable", unresolved, clean, 75, "Go's database was not asked"},
		{"npm's database unreachable", clean, refused, 75, "npm's database for ui was not asked"},
		{"both unreachable", unresolved, refused, 75, "no such host"},
		{"in a package, Go's database unreachable", unresolved, audited, 1, "Go's database was not asked"},
		{"in a module, npm's database unreachable", called, refused, 1, "npm's database"},
		{"programs do not compile", notCompiling, clean, 1, "syntax error"},
	} {
		t.Run(row.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, script := range map[string]string{"go": row.goTool, "npm": row.npm} {
				if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			check := exec.Command(".ci/vulnerabilities")
			check.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"))
			said, err := check.CombinedOutput()
			if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
				t.Fatal(err)
			}
			if exit := check.ProcessState.ExitCode(); exit != row.exit || !strings.Contains(string(said), row.says) {
				t.Errorf("exit code %d, want %d; said %s", exit, row.exit, said)
			}
		})
	}
}

// TestNodeIsLocked: what .ci/install brings through npm has one version and a sum.
func TestNodeIsLocked(t *testing.T) {
	text, err := os.ReadFile(".ci/install")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "npm install ") || !strings.Contains(string(text), "npm ci ") {
		t.Error(".ci/install does not use the lock file")
	}
	for name, p := range lockedPackages(t, ".ci/node/package-lock.json") {
		if name != "" && !p.InBundle && (!strings.HasPrefix(p.Integrity, "sha512-") || p.Version == "") {
			t.Errorf("%s: version %q, sum %q", name, p.Version, p.Integrity)
		}
	}
}

// TestPythonIsLocked: what .ci/install brings through pip has one version and a sum.
func TestPythonIsLocked(t *testing.T) {
	text, err := os.ReadFile(".ci/install")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), "pip install ") != 1 || !strings.Contains(string(text), `--require-hashes --requirement "$requirements"`) {
		t.Error(".ci/install does not require the sums of Python packages")
	}
	begins := regexp.MustCompile(`(?m)^[^\s#].*`)
	pinned := regexp.MustCompile(`^[a-z0-9._-]+==[0-9][0-9A-Za-z.]* \\\n    --hash=sha256:[0-9a-f]{64}\b`)
	for _, name := range []string{"python/requirements-test.txt", "dist/site/requirements.txt"} {
		if !strings.Contains(string(text), name) {
			t.Errorf(".ci/install does not use %s", name)
		}
		locked, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range begins.FindAllIndex(locked, -1) {
			if !pinned.Match(locked[at[0]:]) {
				t.Errorf("%s: %s: no version, no sum, or an option", name, locked[at[0]:at[1]])
			}
		}
	}
}

type lockedPackage struct {
	Version, Integrity string
	InBundle           bool
}

func lockedPackages(t *testing.T, file string) map[string]lockedPackage {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]lockedPackage
	}
	if err := json.Unmarshal(content, &lock); err != nil {
		t.Fatal(err)
	}
	return lock.Packages
}
