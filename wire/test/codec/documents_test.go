package codec_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pillion.dev/wire"
)

var (
	headers = regexp.MustCompile("(?s)<!-- header: ([^\n]+) -->\n```\n(.*?)```")
	example = regexp.MustCompile("(?s)<!-- golden vector: ([^\n]+) -->\n```\n(.*?)```")
	octets  = regexp.MustCompile(`^[0-9a-f]{2}( [0-9a-f]{2})*`)
)

// examples returns the documents about marks on the wire.
func examples(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("../../../docs/reference/wire*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// TestDocumentedPackets: the packets in docs/reference/wire*.md are golden vectors, and each encoding has one.
func TestDocumentedPackets(t *testing.T) {
	text := examples(t)
	marked, encodings := map[string][]byte{}, map[wire.Encoding]bool{}
	for _, v := range load(t) {
		marked[v.Name] = v.Marked
	}
	for _, found := range example.FindAllStringSubmatch(text, -1) {
		name, packet := found[1], documented(t, found[2])
		if !bytes.Equal(packet, marked[name]) {
			t.Errorf("%s: documented as\n%x, is\n%x", name, packet, marked[name])
		}
		encoding, err := wire.ParseEncoding(strings.Fields(name)[0])
		if err != nil {
			t.Error(err)
		}
		encodings[encoding] = true
	}
	for _, e := range wire.Encodings() {
		if !encodings[e] {
			t.Errorf("docs/reference/wire*.md have no packet in the encoding %v", e)
		}
	}
}

// documented reads the octets of an example.
func documented(t *testing.T, lines string) (all []byte) {
	t.Helper()
	for line := range strings.Lines(lines) {
		b, err := hex.DecodeString(strings.ReplaceAll(octets.FindString(line), " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// TestDocumentedHeaders: the headers in docs/reference/wire*.md are the vectors of standards with these names.
func TestDocumentedHeaders(t *testing.T) {
	text := examples(t)
	found := headers.FindAllStringSubmatch(text, -1)
	if len(found) < 4 {
		t.Errorf("docs/reference/wire*.md have %d headers", len(found))
	}
	for _, f := range found {
		i := slices.IndexFunc(standardVectors, func(v standardVector) bool { return v.name == f[1] })
		if i < 0 {
			t.Errorf("no vector is named %q", f[1])
			continue
		}
		if got, want := documented(t, f[2]), unhex(t, standardVectors[i].hex); !bytes.Equal(got, want) {
			t.Errorf("%s: documented as\n%x, is\n%x", f[1], got, want)
		}
	}
}
