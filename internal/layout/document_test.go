package layout

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh[^\n]*\n(.*?)^```$")
	makeTarget = regexp.MustCompile("(?m)(?:^    |`)make((?: [a-zA-Z][a-zA-Z0-9_-]*(?:=[^ \n`]*)?)+)")
)

// eachDocument calls with the text of each document.
func eachDocument(t *testing.T, call func(name, text string)) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/README.md", "study/*/README.md", "study/bench/results/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			call(name, string(text))
		}
	}
}

// TestDocumentSizes: a page answers one question, so it is short. Generated pages are as long as what they list.
func TestDocumentSizes(t *testing.T) {
	eachDocument(t, func(name, text string) {
		limit := 260
		switch {
		case name == "README.md":
			limit = 150
		case !strings.HasPrefix(name, "docs/") || name == "docs/changes.md" || generated.MatchString(text):
			return
		}
		if lines := strings.Count(text, "\n"); lines > limit {
			t.Errorf("%s has %d lines, the limit is %d: divide it", name, lines, limit)
		}
	})
}

// TestDocumentedShell: bash accepts the syntax of all blocks of commands, those included that no
// test runs since they need other machines.
func TestDocumentedShell(t *testing.T) {
	var script strings.Builder
	eachDocument(t, func(name, text string) {
		for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
			script.WriteString("# " + name + "\n" + block[1])
		}
	})
	check := exec.Command("bash", "-n")
	check.Stdin = strings.NewReader(script.String())
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("bash: %v: %s\nof\n%s", err, said, script.String())
	}
}

// TestDocumentedTargets: the Makefile has each target that a document names in code or in a block.
func TestDocumentedTargets(t *testing.T) {
	rules, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	eachDocument(t, func(name, text string) {
		text = shellBlock.ReplaceAllStringFunc(text, func(block string) string { return strings.ReplaceAll(block, "\n", "\n    ") })
		for _, match := range makeTarget.FindAllStringSubmatch(text, -1) {
			for _, target := range strings.Fields(match[1]) {
				if named++; !strings.Contains(target, "=") && !strings.Contains(string(rules), "\n"+target+":") {
					t.Errorf("%s: the Makefile has no target %s", name, target)
				}
			}
		}
	})
	if named < 50 {
		t.Errorf("the documents name %d targets, want at least 50", named)
	}
}

// TestMakeHelp: make help lists at most ten targets, and make help-all these and all others.
func TestMakeHelp(t *testing.T) {
	list := func(target string) []string {
		out, err := exec.Command("make", "--no-print-directory", target).Output()
		if err != nil {
			t.Fatalf("make %s: %v", target, err)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	first, all := list("help"), list("help-all")
	if len(first) < 5 || len(first) > 10 || len(all) < 50 {
		t.Errorf("make help lists %d targets, and make help-all %d", len(first), len(all))
	}
	for _, line := range first {
		if !slices.Contains(all, line) {
			t.Errorf("make help-all does not list %q", line)
		}
	}
}
