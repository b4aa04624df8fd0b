package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"pillion.dev/internal/notice"
	"pillion.dev/internal/version"
)

// ErrUsage marks a command line that cannot be parsed, ErrValue an option or argument
// with an invalid value.
var (
	ErrUsage = errors.New("invalid command line")
	ErrValue = errors.New("invalid value")
)

// Exit codes; ExitUser is for errors that the user can correct.
const (
	ExitFailure = 1
	ExitUser    = 2
)

// Hint is advice about matching errors, and their exit code.
type Hint struct {
	fits func(error) bool
	text string
	code int
}

// Correctable is a hint for errors that the user can correct, Failure for others.
func Correctable(fits func(error) bool, text string) Hint { return Hint{fits, text, ExitUser} }
func Failure(fits func(error) bool, text string) Hint     { return Hint{fits, text, ExitFailure} }

// Is matches errors with a cause.
func Is(cause error) func(error) bool {
	return func(err error) bool { return errors.Is(err, cause) }
}

// commandError is an error of a command, which hints name.
type commandError struct {
	error
	command string
}

func (e commandError) Unwrap() error { return e.error }

// commandOf returns the program, and the command whose error this is if it is known.
func commandOf(program string, err error) string {
	if e := (commandError{}); errors.As(err, &e) {
		return e.command
	}
	return program
}

// Named adds the command of a parsed command line, or of one that could not be parsed, to
// its error.
func Named(line *kong.Context, err error) error {
	if parsed := (*kong.ParseError)(nil); line == nil && errors.As(err, &parsed) {
		line = parsed.Context
	}
	if err == nil || line == nil || line.Selected() == nil {
		return err
	}
	node := line.Selected()
	for node.Type == kong.ArgumentNode {
		node = node.Parent
	}
	return commandError{err, node.FullPath()}
}

// Fail prints an error on one line, followed by the text of the first matching hint, if
// any, and returns the exit code. The word COMMAND in a hint stands for the program and the
// command that failed.
func Fail(w io.Writer, program string, err error, hints []Hint) int {
	fmt.Fprintf(w, "%s: %s\n", program, strings.ReplaceAll(err.Error(), "\n", "; "))
	for _, h := range hints {
		if h.fits(err) {
			if h.text != "" {
				fmt.Fprintf(w, "hint: %s\n", strings.ReplaceAll(h.text, "COMMAND", commandOf(program, err)))
			}
			return h.code
		}
	}
	return ExitFailure
}

// Run parses the arguments with a program's parser and runs the command, with a context
// that an interrupt ends.
func Run(args []string, parser func(context.Context) (*kong.Kong, error)) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p, err := parser(ctx)
	if err != nil {
		return err
	}
	line, err := p.Parse(Conventional(args, "version"))
	if err != nil {
		return Named(nil, fmt.Errorf("%w: %w", ErrUsage, err))
	}
	return Named(line, line.Run())
}

// Conventional returns the arguments of the command that prints a program's version if the
// arguments are --version alone, which other programs have, and else the arguments themselves.
func Conventional(args []string, printsVersion ...string) []string {
	if slices.Equal(args, []string{"--version"}) {
		return printsVersion
	}
	return args
}

// Version is the command that prints the version of a program.
type Version struct{}

// Run prints the version.
func (Version) Run(line *kong.Context) error {
	_, err := fmt.Println(line.Model.Name, version.String())
	return err
}

// Licenses is the command that prints the licences of what a program contains.
type Licenses struct{}

// Run prints the licences.
func (Licenses) Run(line *kong.Context) error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("list licences: this program was built without a list of its modules")
	}
	return notice.Write(os.Stdout, notice.Linked(info, line.Model.Name))
}

// Check is the command that checks a configuration file.
type Check[C any] struct {
	File string `arg:"" help:"Configuration file, YAML."`
}

// Run reads the file.
func (c *Check[C]) Run(read func(path string) (C, error)) error {
	if _, err := read(c.File); err != nil {
		return err
	}
	fmt.Printf("%s: valid\n", c.File)
	return nil
}
