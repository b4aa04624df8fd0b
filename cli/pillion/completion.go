package pillion

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// completeWord is the hidden command that the shells' code calls: the words after
// it are the command line so far, the last one what is being typed.
const completeWord = "__complete"

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help has the examples.
func (completionCmd) Help() string {
	return `Names of agents, sessions, streams and tokens are asked of the server.

For bash, in ~/.bashrc: source <(pillion completion bash)
For zsh, in ~/.zshrc, after compinit: source <(pillion completion zsh)
For fish, in ~/.config/fish/config.fish: pillion completion fish | source

Examples:

  pillion completion bash
  pillion completion fish`
}

var completionCode = map[string]string{
	"bash": `# bash completion of pillion
_pillion() {
	local word=${COMP_WORDS[COMP_CWORD]} line
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == :file ]]; then
			compopt -o filenames 2>/dev/null
			while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$word")
			return
		fi
		COMPREPLY+=("$line")
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _pillion pillion
`,
	"zsh": `# zsh completion of pillion
_pillion() {
	local -a found
	found=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ ${found[1]} == :file ]]; then
		_files
	elif [[ -n ${found[1]} ]]; then
		compadd -- "${found[@]}"
	fi
}
compdef _pillion pillion
`,
	"fish": `# fish completion of pillion
function __pillion_complete
	set -l words (commandline -opc) (commandline -ct)
	for line in (command $words[1] __complete $words[2..-1] 2>/dev/null)
		if test $line = :file
			__fish_complete_path (commandline -ct)
		else
			echo $line
		end
	end
end
complete -c pillion -f -a '(__pillion_complete)'
`,
}

// Run prints the code.
func (c *completionCmd) Run(a *app) error {
	_, err := io.WriteString(a.out, completionCode[c.Shell])
	return err
}

// complete prints what can stand for the last word, a line each, or :file for a
// name of a file. Faults are silent: nobody asked.
func complete(ctx context.Context, words []string, out io.Writer) {
	line := &cli{}
	parser, err := newParser(ctx, line)
	if err != nil || len(words) == 0 {
		return
	}
	typed := words[len(words)-1]
	value, rest := seek(parser.Model.Node, words[:len(words)-1], line)
	var candidates []string
	switch {
	case value != nil:
		candidates = valueWords(ctx, value, line)
	case strings.HasPrefix(typed, "-"):
		candidates = flagWords(rest.node)
	default:
		candidates = rest.words(ctx, line)
	}
	for _, word := range candidates {
		if strings.HasPrefix(word, typed) || word == ":file" {
			fmt.Fprintln(out, clean(word))
		}
	}
}

// place is where in the grammar the last word stands.
type place struct {
	node       *kong.Node
	positional int
}

// seek walks the words before the last one. value is the option whose value comes
// next, or nil. The options that lead to the server are kept.
func seek(node *kong.Node, words []string, line *cli) (value *kong.Value, at place) {
	at.node = node
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") && word != "-" {
			name, given, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
			flag := findFlag(at.node, name)
			if flag == nil || flag.IsBool() {
				continue
			}
			if !joined {
				if i == len(words)-1 {
					return flag.Value, at
				}
				i++
				given = words[i]
			}
			keep(line, flag.Name, given)
			continue
		}
		if child := findChild(at.node, word); child != nil {
			at = place{node: child}
			continue
		}
		if at.node.DefaultCmd != nil && len(at.node.Positional) == 0 {
			at = place{node: at.node.DefaultCmd}
		}
		at.positional++
	}
	return nil, at
}

func keep(line *cli, name, value string) {
	switch name {
	case "server":
		line.Server = value
	case "token-file":
		line.TokenFile = value
	case "ca":
		line.CA = value
	case "ca-fingerprint":
		line.CAFingerprint = value
	case "config":
		line.Config = value
	}
}

func findChild(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// flagsOf are the options of a command, its default command and all above it.
func flagsOf(node *kong.Node) []*kong.Flag {
	var flags []*kong.Flag
	if node.DefaultCmd != nil {
		flags = append(flags, node.DefaultCmd.Flags...)
	}
	for ; node != nil; node = node.Parent {
		flags = append(flags, node.Flags...)
	}
	return flags
}

func findFlag(node *kong.Node, name string) *kong.Flag {
	for _, flag := range flagsOf(node) {
		if flag.Name == name || len(name) == 1 && flag.Short == rune(name[0]) {
			return flag
		}
	}
	return nil
}

func flagWords(node *kong.Node) []string {
	var words []string
	for _, flag := range flagsOf(node) {
		if !flag.Hidden {
			words = append(words, "--"+flag.Name)
		}
	}
	return words
}

// words are commands, and values of the argument whose turn it is.
func (p place) words(ctx context.Context, line *cli) []string {
	var words []string
	if p.positional == 0 {
		for _, child := range p.node.Children {
			if !child.Hidden {
				words = append(words, child.Name)
			}
		}
	}
	if n := len(p.node.Positional); n > 0 {
		value := p.node.Positional[min(p.positional, n-1)]
		if p.positional < n || value.IsSlice() {
			words = append(words, valueWords(ctx, value, line)...)
		}
	}
	return words
}

func valueWords(ctx context.Context, value *kong.Value, line *cli) []string {
	if value.Enum != "" {
		var words []string
		for _, word := range value.EnumSlice() {
			if word != "" {
				words = append(words, word)
			}
		}
		return words
	}
	switch kind := value.Tag.Get("complete"); kind {
	case "":
		return nil
	case "file":
		return []string{":file"}
	default:
		return askNames(ctx, kind, line)
	}
}

// askNames asks the server for names; a shell does not wait longer than a second.
func askNames(ctx context.Context, kind string, line *cli) []string {
	line.Server = first(line.Server, os.Getenv("PILLION_SERVER"))
	line.connection.Token = os.Getenv("PILLION_TOKEN")
	line.TokenFile = first(line.TokenFile, os.Getenv("PILLION_TOKEN_FILE"))
	line.CA = first(line.CA, os.Getenv("PILLION_CA"))
	line.CAFingerprint = first(line.CAFingerprint, os.Getenv("PILLION_CA_FINGERPRINT"))
	line.Config = first(line.Config, os.Getenv("PILLION_CONFIG"))
	line.Timeout = time.Second
	a, err := newApp(&line.connection)
	if err != nil {
		return nil
	}
	a.err = io.Discard
	defer a.close()
	client, err := a.dial()
	if err != nil {
		return nil
	}
	return namesOf(ctx, kind, client)
}

func namesOf(ctx context.Context, kind string, client *api.Client) []string {
	var names []string
	switch kind {
	case "agent":
		answer, _ := client.Agents.ListAgents(ctx, &pillionv1.ListAgentsRequest{})
		for _, g := range answer.GetAgents() {
			names = append(names, g.GetName())
		}
	case "session":
		answer, _ := client.Sessions.ListSessions(ctx, &pillionv1.ListSessionsRequest{})
		for _, s := range answer.GetSessions() {
			names = append(names, s.GetSpec().GetName())
		}
	case "stream":
		answer, _ := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
		for _, s := range answer.GetStreams() {
			names = append(names, s.GetName())
		}
	case "token":
		answer, _ := client.Server.ListTokens(ctx, &pillionv1.ListTokensRequest{})
		for _, k := range answer.GetTokens() {
			names = append(names, k.GetName())
		}
	}
	return names
}
