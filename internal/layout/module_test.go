package layout

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// moduleFilesLimit is how many hand-written files a new module of marks may take.
const moduleFilesLimit = 3

var (
	exampleModule = regexp.MustCompile(`(?i)hop[-_]?count`)
	listedRow     = regexp.MustCompile("(?m)^\\| [0-9]+ \\| `([^`]+)` \\|")
)

// TestModuleFiles checks that docs/howto/extending.md lists at most three files for a module, that
// the example consists of these, and that no other file names it: what it takes to know a
// module follows from its descriptor. Tests that add it may name it.
func TestModuleFiles(t *testing.T) {
	guide, err := os.ReadFile("docs/howto/extending.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## A module of marks\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := listedRow.FindAllStringSubmatch(section, -1)
	if len(listed) == 0 || len(listed) > moduleFilesLimit {
		t.Errorf("docs/howto/extending.md lists %d files for a module, the limit is %d", len(listed), moduleFilesLimit)
	}
	for _, row := range listed {
		if file := strings.ReplaceAll(row[1], "NAME", "hop_count"); !strings.Contains(section, "`"+file+"`:\n") {
			t.Errorf("docs/howto/extending.md does not show %s", file)
		}
	}
	eachWatched(t, []string{"docs/howto/extending.md"}, func(name string, text []byte) {
		if exampleModule.Match(text) {
			t.Errorf("%s names the module of docs/howto/extending.md", name)
		}
	})
}
