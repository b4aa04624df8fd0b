package commandtest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// root is the repository, seen from the package of a program.
const root = "../.."

var (
	fence    = regexp.MustCompile("(?ms)^```([a-z]*)[^\n]*\n(.*?)^```$")
	codeSpan = regexp.MustCompile("`([^`\n]+(?:\n[^`\n]+)?)`")
	variable = regexp.MustCompile(`^[A-Za-z_]+=`)
	negative = regexp.MustCompile(`^-[0-9]`)
)

// texts begin with the name of a program and are no command lines: contents of packets and files.
var texts = []string{"pillion path probe", "pillion packets"}

// before are words that precede a command.
var before = []string{"sudo", "exec", "time", "if", "then", "do", "else", "while", "until", "!", "{"}

// documents are all documents of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/README.md", "study/*/README.md", "study/bench/results/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, names...)
	}
	return found
}

// TestDocumentedCommands checks each command line of a program in the documents, also those that
// need other hosts, so that no test runs them: its commands and options exist and, in a block, it
// is complete.
// parser makes a parser, which keeps what it has parsed.
func TestDocumentedCommands(t *testing.T, parser func() (*kong.Kong, error), least int) {
	t.Helper()
	app, err := parser()
	if err != nil {
		t.Fatal(err)
	}
	program, lines := app.Model.Name, 0
	for _, document := range documents(t) {
		text := Text(t, document)
		for _, words := range blockCommands(t, document, text, program) {
			lines++
			again, err := parser()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := again.Parse(words); err != nil && !errors.Is(err, fs.ErrNotExist) { // a file of the reader
				t.Errorf("%s: %s %s: %v", document, program, strings.Join(words, " "), err)
			}
		}
		for _, span := range codeSpan.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(span[1], text) }) {
				continue
			}
			for _, words := range programCommands(span[1], program) {
				lines++
				if err := known(app.Model.Node, words); err != nil {
					t.Errorf("%s: `%s`: %v", document, span[1], err)
				}
			}
		}
	}
	if lines < least {
		t.Errorf("the documents have %d command lines of %s, want at least %d", lines, program, least)
	}
}

// blockCommands returns the arguments of each command of a program in the blocks of a document.
// Blocks without a language also contain output: there a command begins its line.
func blockCommands(t *testing.T, document, text, program string) [][]string {
	t.Helper()
	var found [][]string
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		switch block[1] {
		case "sh":
			commands, err := ShellCommands(block[2])
			if err != nil {
				t.Errorf("%s: %v\n%s", document, err, block[2])
			}
			for _, command := range commands {
				found = append(found, ofProgram(command, program)...)
			}
		case "":
			for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", "")) {
				found = append(found, programCommands(line, program)...)
			}
		}
	}
	return found
}

// programCommands are the commands in one line, which may be no command at all.
func programCommands(line, program string) [][]string {
	commands, err := ShellCommands(line)
	if err != nil || len(commands) == 0 {
		return nil
	}
	return ofProgram(commands[0], program)
}

// ofProgram returns the arguments of a command if it is the program's.
func ofProgram(command []string, program string) [][]string {
	for len(command) > 0 && (slices.Contains(before, command[0]) || variable.MatchString(command[0])) {
		command = command[1:]
	}
	if len(command) > 3 && slices.Equal(command[:3], []string{"ip", "netns", "exec"}) {
		command = command[4:]
	}
	if len(command) == 0 || filepath.Base(command[0]) != program {
		return nil
	}
	return [][]string{command[1:]}
}

// known checks that commands and options exist; what text abbreviates, such as arguments, may be
// missing.
func known(node *kong.Node, words []string) error {
	for i, word := range words {
		switch {
		case word == "--":
			return nil
		case negative.MatchString(word): // a time, the value of an option
		case strings.HasPrefix(word, "-") && len(word) > 1 && !hasFlag(node, word):
			return fmt.Errorf("%s has no option %s", node.FullPath(), word)
		case strings.HasPrefix(word, "-"):
		case len(node.Children) > 0:
			child := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == word || slices.Contains(n.Aliases, word) })
			if child >= 0 {
				return known(node.Children[child], words[i+1:])
			}
			if node.DefaultCmd == nil && len(words) > 0 && (i == 0 || !strings.HasPrefix(words[i-1], "-")) {
				return fmt.Errorf("%s has no command %s", node.FullPath(), word)
			}
		}
	}
	return nil
}

// hasFlag says whether a command, or one above it, has an option.
func hasFlag(node *kong.Node, word string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for ; node != nil; node = node.Parent {
		flags := node.Flags
		if node.DefaultCmd != nil {
			flags = slices.Concat(flags, node.DefaultCmd.Flags)
		}
		for _, flag := range flags {
			negated := flag.Tag != nil && flag.Tag.Negatable != "" && name == "no-"+flag.Name
			if strings.HasPrefix(word, "--") && (flag.Name == name || negated || slices.Contains(flag.Aliases, name)) {
				return true
			}
			if !strings.HasPrefix(word, "--") && flag.Short != 0 && strings.HasPrefix(name, string(flag.Short)) {
				return true
			}
		}
	}
	return false
}
