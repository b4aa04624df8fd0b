// Package section compares a part of a document, between two lines, with what the code says.
package section

import (
	"os"
	"strings"
	"testing"
)

// Check fails the test if the part of a document between begin and end differs from what is wanted, or with update
// writes it.
func Check(t *testing.T, document, begin, end, want string, update bool) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	got, after, ends := strings.Cut(rest, end)
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no part between %q and %q", document, begin, end)
	case update:
		if err := os.WriteFile(document, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("%s differs: run go test with -update in this folder\n%s", document, want)
	}
}
