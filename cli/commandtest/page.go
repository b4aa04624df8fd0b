package commandtest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
)

// TestPage checks that the manual page of a program has each section, command, option and
// variable, and that man formats it without a warning.
func TestPage(t *testing.T, model *kong.Application, manual command.Manual) {
	t.Helper()
	page := manual.Page(model, "1.0", "2026-01-31")
	position := 0
	for _, heading := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "ENVIRONMENT", "FILES", `EXIT STATUS`, "SEE ALSO"} {
		at := strings.Index(page, "\n.SH \""+heading+"\"\n")
		if at < position {
			t.Fatalf("the section %s is missing or in the wrong place", heading)
		}
		position = at
	}
	plain := strings.ReplaceAll(page, `\-`, "-")
	for _, node := range command.Commands(model) {
		if !strings.Contains(plain, "\n.SS \""+command.Path(node)+"\"\n") {
			t.Errorf("the command %s is missing", command.Path(node))
		}
		for _, flag := range node.Flags {
			if !flag.Hidden && !strings.Contains(strings.ReplaceAll(plain, "--[no-]", "--"), "--"+flag.Name) {
				t.Errorf("the option --%s is missing", flag.Name)
			}
			for _, name := range flag.Envs {
				if !strings.Contains(plain, "\n\\fB"+name+"\\fR\nSets ") {
					t.Errorf("the variable %s is missing", name)
				}
			}
		}
	}
	man, err := exec.LookPath("man")
	if err != nil {
		return // a system without manual pages
	}
	format := exec.Command(man, "--warnings", "--encoding=UTF-8", "--local-file", "-")
	format.Stdin, format.Env = strings.NewReader(page), []string{"MANWIDTH=80", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "GROFF_NO_SGR=1"}
	var said strings.Builder
	format.Stderr = &said
	if text, err := format.Output(); err != nil || said.Len() > 0 || !strings.Contains(string(text), "https://pillion.dev") {
		t.Errorf("man: %v: %s", err, said.String())
	}
}
