package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// loaded is what a browser loads from elsewhere: scripts, styles, fonts, images.
var loaded = regexp.MustCompile(`<(?:script|img|iframe|source)[^>]* src="?(?:https?:)?//[^>]*>|<link[^>]* rel="?(?:stylesheet|preconnect|icon)[^>]* href="?(?:https?:)?//[^>]*>`)

// TestDocumentSite builds the site of the documents: links and anchors are right, each document is
// in the navigation, and a browser loads nothing from elsewhere.
func TestDocumentSite(t *testing.T) {
	folder := t.TempDir()
	if said, err := exec.Command(".ci/site", folder).CombinedOutput(); err != nil {
		t.Fatalf(".ci/site: %v (.ci/install site brings what it needs)\n%s", err, said)
	}
	pages, err := filepath.Glob(folder + "/*.html")
	if err != nil {
		t.Fatal(err)
	}
	inFolders, err := filepath.Glob(folder + "/*/*.html")
	if pages = append(pages, inFolders...); err != nil || len(pages) < 20 {
		t.Fatalf("the site has %d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(page, folder+"/")
		for _, found := range loaded.FindAll(text, -1) {
			t.Errorf("%s loads %s", name, found)
		}
		// What the renderer did not take for a fence, a heading, a list or a link.
		for _, mark := range []string{"<p>```", "<p># ", "<p>- ", "<p>| ", "\">](\""} {
			if strings.Contains(string(text), mark) {
				t.Errorf("%s: the page contains %q", name, mark)
			}
		}
	}
	if _, err := os.Stat(folder + "/search/search_index.js"); err != nil {
		t.Errorf("pages from a folder have no search: %v", err)
	}
}
