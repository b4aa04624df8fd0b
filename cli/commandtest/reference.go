package commandtest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
)

// Update makes tests write their golden files.
var Update = flag.Bool("update", false, "write golden files and references")

// CompareGolden compares text with a golden file; -update writes it.
func CompareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs\n--- got\n%s--- want\n%s", path, got, want)
	}
}

// Words splits a line as a shell does, as far as documents need it: quotes are single ones,
// and a comment follows spaces.
func Words(line string) []string {
	var words []string
	line, _, _ = strings.Cut(line, "  #")
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	return words
}

// Contents is a table of the commands of a program, with links to their sections.
func Contents(model *kong.Application) string {
	var b strings.Builder
	b.WriteString("| command | |\n|---|---|\n")
	for _, node := range command.Commands(model) {
		section := model.Name + " " + command.Path(node)
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", command.Path(node), strings.ReplaceAll(section, " ", "-"), node.Help)
	}
	return b.String()
}

// List is a list of options or arguments.
func List(entries []command.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "- `%s`: %s\n", e.Name, e.Text)
	}
	return b.String()
}

// Sections describes each command of a program, its arguments and its options.
func Sections(model *kong.Application) string {
	var b strings.Builder
	for _, node := range command.Commands(model) {
		fmt.Fprintf(&b, "\n## %s %s\n\n%s\n", model.Name, command.Path(node), node.Help)
		text, examples := command.Detail(node)
		if text != "" {
			b.WriteString("\n" + strings.ReplaceAll(text, "\n  - ", "\n- ") + "\n") // lists are indented on a terminal
		}
		if examples != "" {
			b.WriteString("\n```\n" + examples + "\n```\n")
		}
		if len(node.Positional)+len(node.Flags) > 0 {
			b.WriteString("\n")
		}
		b.WriteString(List(command.Arguments(node)) + List(command.Options(node.Flags)))
	}
	return b.String()
}

// TestDefaults: the help of each option names its default, which is all that says it in
// a reference where the option has a placeholder.
func TestDefaults(t *testing.T, model *kong.Application) {
	t.Helper()
	for _, node := range command.Commands(model) {
		for _, flag := range node.Flags {
			if value := flag.Default; value != "" && !flag.IsBool() && !flag.Hidden && !strings.Contains(flag.Help, value) {
				t.Errorf("%s --%s: the help does not name the default, %s: %s", command.Path(node), flag.Name, value, flag.Help)
			}
		}
	}
}

// TestCommands compares the reference of the program's commands with its manual and what its
// help says.
func (d Daemon) TestCommands(t *testing.T, document, title string, manual command.Manual) {
	t.Helper()
	model := d.Parser.Model
	TestDefaults(t, model)
	CompareGolden(t, document, title+manual.Markdown()+"\n## Commands\n\n"+Contents(model)+Sections(model))
	TestPage(t, model, manual)
}
