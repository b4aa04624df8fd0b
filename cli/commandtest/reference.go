package commandtest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
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

// Walk visits a command and those below it.
func Walk(node *kong.Node, visit func(*kong.Node)) {
	visit(node)
	for _, child := range node.Children {
		Walk(child, visit)
	}
}

// Path is a command without the program and arguments.
func Path(node *kong.Node) string {
	var words []string
	for ; node != nil && node.Type == kong.CommandNode; node = node.Parent {
		words = append([]string{node.Name}, words...)
	}
	return strings.Join(words, " ")
}

// Commands returns the commands of a program that its help lists and that can be run.
func Commands(model *kong.Application) []*kong.Node {
	var found []*kong.Node
	Walk(model.Node, func(node *kong.Node) {
		if node.Type == kong.CommandNode && !node.Hidden && len(node.Children) == 0 {
			found = append(found, node)
		}
	})
	return found
}

// Contents is a table of the commands of a program, with links to their sections.
func Contents(model *kong.Application) string {
	var b strings.Builder
	b.WriteString("| command | |\n|---|---|\n")
	for _, node := range Commands(model) {
		section := model.Name + " " + Path(node)
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", Path(node), strings.ReplaceAll(section, " ", "-"), node.Help)
	}
	return b.String()
}

// Options lists options as their help does.
func Options(flags []*kong.Flag) string {
	var b strings.Builder
	for _, flag := range flags {
		if flag.Hidden || flag.Name == "help" {
			continue
		}
		name := "--" + flag.Name
		if flag.Tag.Negatable != "" {
			name = "--[no-]" + flag.Name
		}
		if !flag.IsBool() {
			name += "=" + flag.FormatPlaceHolder()
		}
		if flag.Short != 0 {
			name = fmt.Sprintf("-%c, %s", flag.Short, name)
		}
		env := ""
		if len(flag.Envs) > 0 {
			env = " (" + strings.Join(flag.Envs, ", ") + ")"
		}
		fmt.Fprintf(&b, "- `%s`: %s%s\n", name, flag.Help, env)
	}
	return b.String()
}

// Sections describes each command of a program, its arguments and its options.
func Sections(model *kong.Application) string {
	var b strings.Builder
	for _, node := range Commands(model) {
		fmt.Fprintf(&b, "\n## %s %s\n\n%s\n", model.Name, Path(node), node.Help)
		text, examples, _ := strings.Cut(node.Detail, "Example")
		if text = strings.TrimSpace(text); text != "" {
			b.WriteString("\n" + text + "\n")
		}
		if _, examples, _ = strings.Cut(examples, "\n\n"); examples != "" {
			b.WriteString("\n```\n" + strings.ReplaceAll(strings.TrimPrefix(examples, "  "), "\n  ", "\n") + "\n```\n")
		}
		if len(node.Positional)+len(node.Flags) > 0 {
			b.WriteString("\n")
		}
		for _, p := range node.Positional {
			fmt.Fprintf(&b, "- `%s`: %s\n", strings.ReplaceAll(p.Summary(), "`", ""), p.Help)
		}
		b.WriteString(Options(node.Flags))
	}
	return b.String()
}

// Values is what the references of the programs say of values on the command line.
const Values = `- Durations: 500ms, 1h30m, 7d; units are ns, us, ms, s, m, h, d (24 hours) and w.
- Sizes and counts: 5000, 10M, 1.5GB, 64MiB; k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti powers of 1024.
`

// TestDefaults: the help of each option names its default, which is all that says it in
// a reference where the option has a placeholder.
func TestDefaults(t *testing.T, model *kong.Application) {
	t.Helper()
	for _, node := range Commands(model) {
		for _, flag := range node.Flags {
			if value := flag.Default; value != "" && !flag.IsBool() && !flag.Hidden && !strings.Contains(flag.Help, value) {
				t.Errorf("%s --%s: the help does not name the default, %s: %s", Path(node), flag.Name, value, flag.Help)
			}
		}
	}
}

// TestCommands compares the reference of the program's commands with what its help says.
func (d Daemon) TestCommands(t *testing.T, document, preface string) {
	t.Helper()
	model := d.Parser.Model
	TestDefaults(t, model)
	CompareGolden(t, document, preface+Contents(model)+Sections(model))
}
