package pillion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/oml/omsp/scaffold"
)

func TestScaffold(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.yaml", []byte("app: a\npoints: [{name: p, fields: [{name: f, type: double}]}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"oml", "scaffold", "a.yaml"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("a_oml.h")
	if err != nil || !strings.Contains(string(text), "oml_inject_p(OmlMP *oml_mp, double f)") {
		t.Errorf("%v\n%s", err, text)
	}
	// A generated file is overwritten, any other is not.
	if err := run(t.Context(), []string{"oml", "scaffold", "a.yaml"}); err != nil {
		t.Error(err)
	}
	own := filepath.Join(t.TempDir(), "own.h")
	if err := os.WriteFile(own, []byte("/* mine */\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"oml", "scaffold", "a.yaml", "-f", own}); err == nil || !strings.Contains(err.Error(), "was not generated") {
		t.Errorf("over a file that was not generated: %v", err)
	}
	if err := run(t.Context(), []string{"oml", "scaffold", "a.yaml", "-f", own, "--force"}); err != nil {
		t.Error(err)
	}
	if text, _ = os.ReadFile(own); !strings.HasPrefix(string(text), scaffold.FirstLine) {
		t.Errorf("--force left %s", text)
	}
}

func TestScaffoldFault(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.yaml", []byte("app: a\npoints:\n  - name: p\n    fields: [{name: f, type: int9}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"oml", "scaffold", "a.yaml"})
	if err == nil || !strings.Contains(err.Error(), `read a.yaml: invalid description: line 4: field f: read type "int9"`) {
		t.Errorf("got %v", err)
	}
}
