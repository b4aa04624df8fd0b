//go:build long

package layout

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProgramsWithoutAWing: each program can be built without each of the wings that it links; then it
// has all commands except the commands of the wing.
func TestProgramsWithoutAWing(t *testing.T) {
	for program, wings := range map[string]map[string]string{ // and a command of each wing
		"pillion-agent":  {"send": "estimate capacity", "oml": "nmetrics", "study": "router"},
		"pillion":        {"send": "", "oml": "oml domains", "study": "experiment run"},
		"pillion-server": {"send": "", "oml": ""},
	} {
		for wing, command := range wings {
			t.Run(program+" without "+wing, func(t *testing.T) {
				said, err := exec.Command(buildWithout(t, program, wing), strings.Fields(command+" --help")...).CombinedOutput()
				if command != "" && (err == nil || !strings.Contains(string(said), "unexpected argument")) {
					t.Errorf("%s: %v: %s", command, err, said)
				}
				if command == "" && (err != nil || !strings.Contains(string(said), "Usage: "+program)) {
					t.Errorf("%v: %s", err, said)
				}
			})
		}
	}
}

// buildWithout builds a program from its main file without what names a wing.
func buildWithout(t *testing.T, program, wing string) string {
	t.Helper()
	main, err := filepath.Abs(filepath.Join("cmd", program, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(main)
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^\t(\w+) "` + module + `/` + wing + `/.*\n`)
	found := lines.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatalf("%s does not import the wing %s", main, wing)
	}
	text = lines.ReplaceAll(text, nil)
	for _, match := range found {
		text = regexp.MustCompile(`(?m)^\t`+string(match[1])+`\.\w+\(\)\n|`+string(match[1])+`\.\w+\(\)(, )?`).ReplaceAll(text, nil)
	}
	folder := t.TempDir()
	without, overlay, built := filepath.Join(folder, "main.go"), filepath.Join(folder, "overlay.json"), filepath.Join(folder, program)
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{main: without}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{without: text, overlay: replace} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.Command("go", "build", "-overlay", overlay, "-o", built, "./cmd/"+program).CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s\n%s", err, said, text)
	}
	return built
}
