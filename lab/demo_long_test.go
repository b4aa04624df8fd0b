//go:build long

package lab_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestLongDemoKept: with --keep the lab stays up, and the printed commands work.
func TestLongDemoKept(t *testing.T) {
	command, name := demoCommand(t, "--seconds", "3", "--keep")
	t.Cleanup(func() {
		if _, stderr, code := agent(t, "lab", "down", name); code != 0 && !t.Failed() {
			t.Error(stderr)
		}
		expectGone(t, name)
	})
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	_, after, _ := strings.Cut(string(text), "The lab stays up")
	for _, tail := range []string{"lab down " + name} {
		if !strings.Contains(after, tail) {
			t.Errorf("no %q in %s", tail, after)
		}
	}
	curl := regexp.MustCompile(`(?m)^  (curl .*)$`).FindStringSubmatch(after)
	tailing := regexp.MustCompile(`(?m)^  (.* tail )flows$`).FindStringSubmatch(after)
	if curl == nil || tailing == nil {
		t.Fatalf("no commands in %s", after)
	}
	for _, line := range []string{curl[1] + " -sf", strings.TrimSuffix(tailing[1], "tail ") + "session show demo"} {
		if said, err := exec.Command("bash", "-c", line).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, said)
		}
	}
}
