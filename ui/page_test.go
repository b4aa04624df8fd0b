package ui

import (
	"bytes"
	"io"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// bundleLimit is for all files together, as browsers get them.
const bundleLimit = 300_000

// TestBundleIsSmall: and what the build has compressed is what it stands beside.
func TestBundleIsSmall(t *testing.T) {
	total := 0
	err := fs.WalkDir(Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(name, ".br") {
			return err
		}
		content, err := fs.ReadFile(Files(), name)
		if err != nil {
			return err
		}
		size := len(content)
		if packed, err := fs.ReadFile(Files(), name+".br"); err == nil {
			size = len(packed)
			plain, err := io.ReadAll(brotli.NewReader(bytes.NewReader(packed)))
			if err != nil || !bytes.Equal(plain, content) {
				t.Errorf("%s.br holds %d other bytes: %v", name, len(plain), err)
			}
		} else if len(content) > 4096 {
			t.Errorf("%s is not compressed: go generate ./ui", name)
		}
		t.Logf("%7d bytes, %6d sent: %s", len(content), size, name)
		total += size
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes in all", total)
	if total >= bundleLimit {
		t.Errorf("%d bytes, the limit is %d", total, bundleLimit)
	}
}

var reference = regexp.MustCompile(`(?:src|href|action)\s*=\s*["']?([^"' >]+)`)

// TestNothingFromOutside: all that the documents name is among the files, and no style
// fetches anything.
func TestNothingFromOutside(t *testing.T) {
	index, err := fs.ReadFile(Files(), "index.html")
	if err != nil {
		t.Fatal(err)
	}
	found := reference.FindAllSubmatch(index, -1)
	if len(found) < 2 {
		t.Fatalf("index.html names %d files: %s", len(found), index)
	}
	for _, match := range found {
		name := strings.TrimPrefix(string(match[1]), "/")
		if _, err := fs.Stat(Files(), name); err != nil {
			t.Errorf("index.html names %q: %v", match[1], err)
		}
	}
	if bytes.Contains(index, []byte("<style")) || bytes.Contains(index, []byte("style=")) {
		t.Error("index.html has a style inside, which the policy forbids")
	}
	styles, err := fs.Glob(Files(), "*.css")
	if err != nil || len(styles) == 0 {
		t.Fatalf("styles %v: %v", styles, err)
	}
	outside := regexp.MustCompile(`@import|url\(["']?(?:https?:)?//`)
	for _, name := range styles {
		text, err := fs.ReadFile(Files(), name)
		if err != nil {
			t.Fatal(err)
		}
		if hit := outside.Find(text); hit != nil {
			t.Errorf("%s has %q", name, hit)
		}
	}
}
