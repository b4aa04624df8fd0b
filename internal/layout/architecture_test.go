package layout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const architecture = "docs/explanation/architecture.md"

var (
	documentedRoom  = regexp.MustCompile("(?m)^\\| (`[a-z`, ]+`) \\| ([a-z ]*) ?\\|")
	documentedPlace = regexp.MustCompile("`([a-z][a-z0-9_.-]*/[^`* ]+)`(?: \\(((?:`[^`]+`(?:, )?)+)\\))?")
)

// TestDocumentedRooms: the document about the architecture has each room with what it may import.
func TestDocumentedRooms(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, line := range documentedRoom.FindAllStringSubmatch(string(text), -1) {
		for _, name := range strings.Split(line[1], ", ") {
			documented[strings.Trim(name, "`")] = strings.TrimSpace(line[2])
		}
	}
	for name, r := range rooms {
		want := r.imports
		if r.wing != "" {
			want = "wing"
		}
		if got, known := documented[name]; !known || got != want {
			t.Errorf("%s: room %s may import %q, listed: %v, with %q", architecture, name, want, known, got)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s: %s is no room", architecture, name)
	}
}

// TestDocumentedPlaces: each path in the document about the architecture exists, and the names in
// parentheses behind it occur in the file.
func TestDocumentedPlaces(t *testing.T) {
	text, err := os.ReadFile(architecture)
	if err != nil {
		t.Fatal(err)
	}
	places := documentedPlace.FindAllStringSubmatch(string(text), -1)
	if len(places) < 50 {
		t.Errorf("%s names %d places, want at least 50", architecture, len(places))
	}
	for _, place := range places {
		if place[2] == "" {
			if _, err := os.Stat(place[1]); err != nil {
				t.Errorf("%s: %v", architecture, err)
			}
			continue
		}
		file, err := os.ReadFile(place[1])
		if err != nil {
			t.Errorf("%s: %v", architecture, err)
			continue
		}
		for _, name := range strings.Split(place[2], ", ") {
			if name = strings.Trim(name, "`"); !regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).Match(file) {
				t.Errorf("%s: %s does not have %s", architecture, place[1], name)
			}
		}
	}
}
