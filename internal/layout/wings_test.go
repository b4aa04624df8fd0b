package layout

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCoreNeedsNoWing: no package of the core depends on one of a wing, whichever way.
func TestCoreNeedsNoWing(t *testing.T) {
	list := func(arguments ...string) (folders []string) {
		t.Helper()
		text, err := exec.Command("go", append([]string{"list"}, arguments...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("go list: %v: %s", err, text)
		}
		for name := range strings.FieldsSeq(string(text)) {
			if folder, ours := strings.CutPrefix(name, module+"/"); ours {
				folders = append(folders, folder)
			}
		}
		return folders
	}
	var core []string
	for _, folder := range list("./...") {
		if room := roomOf(folder); room != "" && room != "cmd" && rooms[room].wing == "" {
			core = append(core, "./"+folder)
		}
	}
	if len(core) < 50 {
		t.Fatalf("only %d packages in the core", len(core))
	}
	for _, folder := range list(append([]string{"-deps"}, core...)...) {
		if wing := rooms[roomOf(folder)].wing; wing != "" {
			t.Errorf("the core depends on %s, of the wing %s", folder, wing)
		}
	}
}
