//go:build long

package pillion

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestLongZshCompletes(t *testing.T) {
	s := startShell(t, "zsh", "-f", "-i")
	s.types("autoload -U compinit && compinit -u -D && source <(pillion completion zsh) && echo loaded=$?\n", "loaded=0")
	s.completes()
}

// TestLongFishCompletes asks fish itself, which has a command for it.
func TestLongFishCompletes(t *testing.T) {
	_, server := newFake(t)
	p := newProgram(t, server)
	script, stderr, code := p.run("completion", "fish")
	if code != 0 {
		t.Fatal(stderr)
	}
	for line, want := range map[string]string{"pillion sess": "session", "pillion agents show nor": "north1"} {
		command := exec.Command("fish", "--no-config", "-c", script+"\ncomplete -C '"+line+"'")
		command.Env, command.Dir = p.environment, p.home
		out, err := command.CombinedOutput()
		if err != nil || !slices.Contains(strings.Fields(string(out)), want) {
			t.Errorf("%s: %v, %q, want %s", line, err, out, want)
		}
	}
}
