package ui

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// bundleLimit is for all files together, as they are sent.
const bundleLimit = 300_000

func TestBundleIsSmall(t *testing.T) {
	total := 0
	err := fs.WalkDir(Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(Files(), name)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		t.Logf("%7d bytes, %6d packed: %s", len(content), packed.Len(), name)
		total += packed.Len()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
