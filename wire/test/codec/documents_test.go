package codec_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"pillion.dev/wire"
)

var (
	example = regexp.MustCompile("(?s)<!-- golden vector: ([^\n]+) -->\n```\n(.*?)```")
	octets  = regexp.MustCompile(`^[0-9a-f]{2}( [0-9a-f]{2})*`)
)

// TestDocumentedPackets: the packets in docs/wire.md are golden vectors, and each encoding has one.
func TestDocumentedPackets(t *testing.T) {
	text, err := os.ReadFile("../../../docs/wire.md")
	if err != nil {
		t.Fatal(err)
	}
	marked, encodings := map[string][]byte{}, map[wire.Encoding]bool{}
	for _, v := range load(t) {
		marked[v.Name] = v.Marked
	}
	for _, found := range example.FindAllStringSubmatch(string(text), -1) {
		name := found[1]
		var packet []byte
		for line := range strings.Lines(found[2]) {
			b, err := hex.DecodeString(strings.ReplaceAll(octets.FindString(line), " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			packet = append(packet, b...)
		}
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
			t.Errorf("docs/wire.md has no packet in the encoding %v", e)
		}
	}
}
