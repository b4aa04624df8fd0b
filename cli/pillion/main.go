// Package pillion is the command line of the program pillion, the client of
// pillion-server: agents, sessions, schedules, paths and rows. It speaks to the API
// only and needs no privileges on the machine it runs on.
package pillion

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
)

// cli is the command line: one field for each command, in one file for each group.
type cli struct {
	connection

	Agents     agentsCmd     `cmd:"" help:"Hosts that have joined."`
	Session    sessionCmd    `cmd:"" help:"Measurements between hosts."`
	Schedule   scheduleCmd   `cmd:"" help:"Runs of sessions, past and to come."`
	Topology   topologyCmd   `cmd:"" help:"Paths between hosts."`
	Streams    streamsCmd    `cmd:"" help:"Streams of rows in the archive."`
	Retention  retentionCmd  `cmd:"" help:"Bound what the archive keeps of a stream."`
	Query      queryCmd      `cmd:"" help:"Ask the archive in SQL."`
	Export     exportCmd     `cmd:"" help:"Write a stream's rows to a file."`
	OML        omlCmd        `cmd:"" name:"oml" help:"Applications that report by OML's protocol."`
	Tail       tailCmd       `cmd:"" help:"Show rows as they come."`
	Events     eventsCmd     `cmd:"" help:"What happened."`
	Doctor     doctorCmd     `cmd:"" help:"Let agents check their hosts."`
	Token      tokenCmd      `cmd:"" help:"Tokens of people, programs and hosts that join."`
	Health     healthCmd     `cmd:"" help:"Whether the server works; exit code 1 when it does not."`
	Login      loginCmd      `cmd:"" help:"Keep a server and a token in the configuration file."`
	Version    versionCmd    `cmd:"" help:"Print the builds of this program and of the server."`
	Completion completionCmd `cmd:"" help:"Print the code with which a shell completes command lines."`
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, args); err != nil {
		return complain(os.Stderr, ctx, err)
	}
	return 0
}

func newParser(ctx context.Context, line *cli) (*kong.Kong, error) {
	return command.New(ctx, "pillion", "Measure a network with the traffic that is already on it.", line,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}))
}

func run(ctx context.Context, args []string) error {
	line := &cli{}
	parser, err := newParser(ctx, line)
	if err != nil {
		return err
	}
	if completing() {
		completeLine(parser, line, os.Stdout)
		return nil
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("read command line: %w: %w", errUsage, err)
	}
	a, err := newApp(&line.connection)
	if err != nil {
		return err
	}
	defer a.close()
	if err := command.BindToProvider(a.dial); err != nil {
		return err
	}
	return command.Run(a)
}
