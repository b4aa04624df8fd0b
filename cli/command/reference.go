package command

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Values is what the references of the programs say of values on the command line.
const Values = `- Durations: 500ms, 1h30m, 7d; units are ns, us, ms, s, m, h, d (24 hours) and w.
- Sizes and counts: 5000, 10M, 1.5GB, 64MiB; k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti powers of 1024.
`

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

// Entry is an option, an argument or a variable, and its description.
type Entry struct{ Name, Text string }

// Options lists options as their help does.
func Options(flags []*kong.Flag) []Entry {
	var entries []Entry
	for _, flag := range flags {
		if flag.Hidden || flag.Name == "help" {
			continue
		}
		name := "--" + flag.Name
		if flag.Tag.Negatable != "" {
			name = "--[no-]" + flag.Name
		}
		switch {
		case !flag.IsBool():
			name += "=" + flag.FormatPlaceHolder()
		case flag.PlaceHolder != "":
			name += "[=" + flag.PlaceHolder + "]"
		}
		if flag.Short != 0 {
			name = fmt.Sprintf("-%c, %s", flag.Short, name)
		}
		env := ""
		if len(flag.Envs) > 0 {
			env = " (" + strings.Join(flag.Envs, ", ") + ")"
		}
		entries = append(entries, Entry{name, flag.Help + env})
	}
	return entries
}

// Arguments lists the arguments of a command.
func Arguments(node *kong.Node) []Entry {
	var entries []Entry
	for _, p := range node.Positional {
		entries = append(entries, Entry{strings.ReplaceAll(p.Summary(), "`", ""), p.Help})
	}
	return entries
}

// Detail splits the long help of a command into its text and its examples, one on each line;
// either can be empty.
func Detail(node *kong.Node) (text, examples string) {
	text, examples, _ = strings.Cut(node.Detail, "Example")
	_, examples, _ = strings.Cut(examples, "\n\n")
	return strings.TrimSpace(text), strings.ReplaceAll(strings.TrimPrefix(examples, "  "), "\n  ", "\n")
}
