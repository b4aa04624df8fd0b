// Package server is the command line of the program pillion-server, to which agents
// report and which clients query. It needs no privileges.
package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"pillion.dev/cli/command"
	"pillion.dev/internal/version"
	"pillion.dev/server"
)

type cli struct {
	Run     runCmd     `cmd:"" default:"withargs" help:"Run the server (the default)."`
	Check   checkCmd   `cmd:"" help:"Check a configuration file."`
	Version versionCmd `cmd:"" help:"Print the version of this program."`
}

type checkCmd struct {
	File string `arg:"" type:"existingfile" help:"Configuration file, YAML."`
}

// Run reads the file.
func (c *checkCmd) Run() error {
	if _, err := server.ReadConfig(c.File); err != nil {
		return err
	}
	fmt.Printf("%s: valid\n", c.File)
	return nil
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run() error {
	_, err := fmt.Println("pillion-server", version.String())
	return err
}

var errUsage = errors.New("invalid command line")

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	err := run(args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage), errors.Is(err, server.ErrConfig):
		fmt.Fprintln(os.Stderr, "pillion-server:", err)
		return 2
	default:
		fmt.Fprintln(os.Stderr, "pillion-server:", err)
		return 1
	}
}

func newParser(ctx context.Context) (*kong.Kong, error) {
	return command.New(ctx, "pillion-server", "Run measurements on many hosts and archive their results.", &cli{},
		kong.Vars{"folder": server.DefaultFolder, "http": server.DefaultHTTP, "bus": server.DefaultBus, "oml": server.DefaultOML, "archive": server.DefaultArchive})
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	parser, err := newParser(ctx)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("%w: %w (see pillion-server --help)", errUsage, err)
	}
	return command.Run()
}
