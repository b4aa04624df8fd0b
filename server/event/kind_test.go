package event

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// raised is how code names the kind of an event that it raises.
var raised = regexp.MustCompile(`(?:event\.Event\{[^}]*Kind: |\.event\(|kind :?= )"([a-z]+(?:-[a-z]+)*)"`)

// kindsIn returns the kinds of events that the code of the server raises.
func kindsIn(t *testing.T, root string) map[string]bool {
	t.Helper()
	kinds := map[string]bool{}
	tree := os.DirFS(root)
	if err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(tree, path)
		for _, found := range raised.FindAllSubmatch(text, -1) {
			kinds[string(found[1])] = true
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return kinds
}

// TestKindsAreNamed: each kind of event that the server raises has a label on the page and a line in
// the documentation, and these name no other kinds.
func TestKindsAreNamed(t *testing.T) {
	want := kindsIn(t, "..")
	for _, alarm := range []string{"alarm", "loss", "silence", "flow-silence"} { // one name for each built-in rule
		want[alarm], want[alarm+"-ended"] = true, true
	}
	for path, line := range map[string]*regexp.Regexp{
		"../../ui/data/kind.ts":          regexp.MustCompile(`(?m)^  "?([a-z-]+)"?: \{ label: "`),
		"../../docs/reference/events.md": regexp.MustCompile("(?m)(?:^\\| |, )`([a-z]+(?:-[a-z]+)*)`"),
	} {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(content)
		if _, section, found := strings.Cut(text, "\n## Kinds\n"); found {
			section, _, _ = strings.Cut(section, "\n## ")
			var first []string
			for row := range strings.Lines(section) {
				if cells := strings.Split(row, "|"); len(cells) > 2 {
					first = append(first, "|"+cells[1])
				}
			}
			text = strings.Join(first, "\n")
		}
		named := map[string]bool{}
		for _, found := range line.FindAllStringSubmatch(text, -1) {
			named[found[1]] = true
		}
		for _, kind := range slices.Sorted(maps.Keys(want)) {
			if !named[kind] {
				t.Errorf("%s does not name events of kind %s", path, kind)
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(named)) {
			if !want[kind] {
				t.Errorf("%s names events of kind %s, which nothing raises", path, kind)
			}
		}
	}
}
