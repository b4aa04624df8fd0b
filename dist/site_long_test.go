//go:build long

package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongDocumentSiteRefusesBrokenLinks: a link to no page, one to no anchor, and a page outside of
// the navigation are errors.
func TestLongDocumentSiteRefusesBrokenLinks(t *testing.T) {
	tree := t.TempDir()
	for _, folder := range []string{".ci/site", "dist/site", "docs", "lab", "clib", "study/bench", "ui/public", "ui/style", "README.md", "python/examples", "wire/wire.h"} {
		to := filepath.Join(tree, folder)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command("cp", "-r", folder, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
	}
	page := filepath.Join(tree, "docs/strange.md")
	if err := os.WriteFile(page, []byte("[page](nowhere.md) [anchor](reference/server.md#nowhere) [file](../lab/nowhere.yaml)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(filepath.Join(tree, ".ci/site"), t.TempDir()).CombinedOutput()
	if err == nil {
		t.Error("a page with broken links is built")
	}
	for _, want := range []string{"nowhere.md", "#nowhere", "lab/nowhere.yaml", "docs/strange.md"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("no warning about %s:\n%s", want, said)
		}
	}
}
