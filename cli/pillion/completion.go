package pillion

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Help has the examples.
func (completionCmd) Help() string {
	return `Names of agents, sessions, streams and tokens are requested from the server.

  - bash, in ~/.bashrc: source <(pillion completion bash)
  - zsh, in ~/.zshrc, after compinit: source <(pillion completion zsh)
  - fish, in ~/.config/fish/config.fish: pillion completion fish | source

Examples:

  pillion completion bash
  pillion completion fish`
}

// Run prints the code.
func (c *completionCmd) Run(ctx *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(ctx)
}

// completing reports whether a shell asks for completions of the line in COMP_LINE.
func completing() bool { return os.Getenv("COMP_LINE") != "" }

// completeLine prints the completions of the last word, one per line. It reports no
// errors, because the user is typing.
func completeLine(parser *kong.Kong, line *cli, out io.Writer) {
	predictors := map[string]complete.Predictor{"file": complete.PredictFiles("*")}
	for kind, names := range namesOf {
		predictors[kind] = complete.PredictFunc(func(complete.Args) []string { return askNames(parser, line, names) })
	}
	command, err := kongcompletion.Command(parser, kongcompletion.WithPredictors(predictors))
	if err != nil {
		return
	}
	extend(parser.Model.Node, &command, kongcompletion.PositionalPredictor{})
	completer := complete.New(parser.Model.Name, command)
	completer.Out = out
	completer.Complete()
}

// extend adds what the library does not know: options of parent commands before an
// argument, repeated arguments, default commands, and empty values of an enumeration.
func extend(node *kong.Node, command *complete.Command, parent kongcompletion.PositionalPredictor) {
	args := command.Args.(*kongcompletion.PositionalPredictor)
	args.ArgFlags = append(args.ArgFlags, parent.ArgFlags...)
	args.BoolFlags = append(args.BoolFlags, parent.BoolFlags...)
	if n := len(node.Positional); n > 0 && node.Positional[n-1].IsSlice() {
		args.Predictors = append(args.Predictors, slices.Repeat(args.Predictors[n-1:], 100)...)
	}
	for _, flag := range node.Flags {
		if flag.Enum != "" {
			values := slices.DeleteFunc(flag.EnumSlice(), func(value string) bool { return value == "" })
			command.GlobalFlags["--"+flag.Name] = complete.PredictSet(values...)
		}
	}
	for _, child := range node.Children {
		if sub, shown := command.Sub[child.Name]; shown {
			extend(child, &sub, *args)
			command.Sub[child.Name] = sub
		}
	}
	if node.DefaultCmd != nil {
		usual := command.Sub[node.DefaultCmd.Name]
		command.Flags, command.Args = usual.GlobalFlags, usual.Args
	}
}

// askNames asks the server that the line so far, the environment or the configuration
// names; a shell does not wait longer than a second.
func askNames(parser *kong.Kong, line *cli, names func(context.Context, *api.Client) []string) []string {
	words := strings.Fields(os.Getenv("COMP_LINE"))
	trace, err := kong.Trace(parser, words[1:])
	if err != nil || trace.Reset() != nil {
		return nil
	}
	_, _ = trace.Apply() // up to the word that is being typed
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
	return names(context.Background(), client)
}

// namesOf asks for the names of a kind, which the tag predictor of an argument or
// option gives.
var namesOf = map[string]func(context.Context, *api.Client) []string{
	"agent": func(ctx context.Context, client *api.Client) []string {
		agents, ends, _ := listAgents(ctx, client, "")
		return append(namesIn(agents, (*pillionv1.Agent).GetName), ends...)
	},
	"session": func(ctx context.Context, client *api.Client) []string {
		sessions, _ := listSessions(ctx, client)
		return namesIn(sessions, func(s *pillionv1.Session) string { return s.GetSpec().GetName() })
	},
	"stream": func(ctx context.Context, client *api.Client) []string {
		answer, _ := client.Data.ListStreams(ctx, &pillionv1.ListStreamsRequest{})
		return namesIn(answer.GetStreams(), (*pillionv1.Stream).GetName)
	},
	"retained": func(ctx context.Context, client *api.Client) []string {
		streams, _ := listRetained(ctx, client)
		return namesIn(streams, (*pillionv1.Stream).GetName)
	},
	"token": func(ctx context.Context, client *api.Client) []string {
		tokens, _ := listTokens(ctx, client)
		return namesIn(tokens, (*pillionv1.Token).GetName)
	},
}

func namesIn[M any](messages []M, name func(M) string) []string {
	var names []string
	for _, m := range messages {
		names = append(names, clean(name(m)))
	}
	return names
}
