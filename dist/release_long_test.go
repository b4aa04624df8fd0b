//go:build long

package dist

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLongReleaseIsReproducible builds a release of the same commit twice: in folders of
// different depth, in different environments, at different times of the files, with the
// page built anew. COLD=1 empties the compiler's cache for the second build, so that
// everything is compiled again; make reproducible does.
func TestLongReleaseIsReproducible(t *testing.T) {
	scratch := t.TempDir()
	cache := strings.TrimSpace(output(t, ".", nil, "go", "env", "GOCACHE"))
	if os.Getenv("COLD") != "" {
		cache = filepath.Join(scratch, "cache")
	}
	a, b := filepath.Join(scratch, "a"), filepath.Join(scratch, "second", "deeper", "tree")
	copyTree(t, ".", a)
	first := release(t, a, nil)
	copyTree(t, a, b)
	second := release(t, b, []string{
		"GOCACHE=" + cache, "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "GOAMD64=v3",
		"GOFLAGS=-buildvcs=false", "CGO_CFLAGS=-O1 -g", "TMPDIR=" + scratch, "HOME=" + scratch,
		"GOMODCACHE=" + strings.TrimSpace(output(t, ".", nil, "go", "env", "GOMODCACHE")),
	})
	names := func(files map[string]string) (all []string) {
		for name := range files {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	want := []string{"LICENSE", "SHA256SUMS", "licenses.txt", "pillion-agent-linux-amd64", "pillion-agent-linux-mips",
		"pillion-linux-amd64", "pillion-server-linux-amd64", "pillion.cdx.json"}
	if got := names(first); !slices.Equal(got, want) || !slices.Equal(names(second), want) {
		t.Fatalf("got %v and %v, want %v", got, names(second), want)
	}
	for _, name := range want {
		if first[name] != second[name] {
			t.Errorf("%s: the builds differ: %s, %s", name, first[name], second[name])
		}
	}
}

// copyTree copies the files of a tree that git would add, and the npm packages, with new
// times.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	files := output(t, from, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
	tar := exec.Command("sh", "-c", `xargs -0 ls -d 2>/dev/null | tar -T - -c | tar -x -m -C "$0"`, to)
	tar.Dir, tar.Stdin = from, strings.NewReader(files)
	if said, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("copy the tree: %v: %s", err, said)
	}
	output(t, from, nil, "cp", "-a", "ui/node_modules", filepath.Join(to, "ui"))
}

// release builds the page anew, commits the tree of the folder and builds its release,
// checks that its programs name what they contain, and returns the sums of its files. A
// real release has further architectures.
func release(t *testing.T, folder string, environment []string) map[string]string {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(folder, "ui", "dist")); err != nil {
		t.Fatal(err)
	}
	fixed := append(slices.Clone(environment), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example", "GIT_AUTHOR_DATE=@1 +0000", "GIT_COMMITTER_DATE=@1 +0000")
	out := filepath.Join(t.TempDir(), "release")
	output(t, folder, fixed, "sh", "-ec", "cd ui; npm run --silent build -- --logLevel error; go run ./pack dist")
	output(t, folder, fixed, "sh", "-ec", "git init -q; git add -A; git commit -q -m release; git tag v0.0.1")
	output(t, folder, append(fixed, "OUT="+out, "TARGETS=mips"), ".ci/release")
	output(t, out, nil, "sha256sum", "--quiet", "-c", "SHA256SUMS")
	for program, contents := range map[string]struct{ in, out string }{
		"pillion-agent":  {"=== go github.com/cilium/ebpf ", "duckdb"},
		"pillion":        {"=== go connectrpc.com/connect ", "duckdb"},
		"pillion-server": {"=== npm uplot ", "=== go github.com/jotaen/kong-completion "},
	} {
		text := output(t, out, nil, "./"+program+"-linux-amd64", "licenses")
		if !strings.HasPrefix(text, "=== go pillion.dev ") || !strings.Contains(text, contents.in) || strings.Contains(text, contents.out) {
			t.Errorf("licences of %s: want %q and not %q in %d bytes", program, contents.in, contents.out, len(text))
		}
	}
	sums := map[string]string{}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(folder)) {
			t.Errorf("%s contains the folder that it was built in", e.Name())
		}
		sum := sha256.Sum256(content)
		sums[e.Name()] = hex.EncodeToString(sum[:])
	}
	return sums
}

func output(t *testing.T, folder string, environment []string, name string, words ...string) string {
	t.Helper()
	command := exec.Command(name, words...)
	command.Dir, command.Env = folder, append(os.Environ(), environment...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(words, " "), err, said.String())
	}
	return string(out)
}
