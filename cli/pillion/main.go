// Package pillion is the command line of the program pillion, the client of
// pillion-server: agents, sessions, schedules, paths and rows. It speaks to the API
// only and needs no privileges on the machine it runs on.
package pillion

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"time"

	"pillion.dev/session"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
)

// wings are what Register added.
var wings command.Wings

// Register adds commands of wings to the program. Call it before Main.
func Register(more ...command.Wing) { wings = append(wings, more...) }

// cli is the command line: one field for each command, in one file for each group.
type cli struct {
	connection

	Agents    agentsCmd    `cmd:"" help:"List and manage agents, the hosts that have joined."`
	Alarms    alarmsCmd    `cmd:"" help:"List alarms, acknowledge and silence them."`
	Session   sessionCmd   `cmd:"" help:"Create and control sessions, the measurements between hosts."`
	Schedule  scheduleCmd  `cmd:"" help:"List past and future runs of sessions."`
	Top       topCmd       `cmd:"" help:"Watch delay, loss and rate of all pairs or flows live, full screen."`
	Topology  topologyCmd  `cmd:"" help:"Show traced paths between hosts."`
	Flows     flowsCmd     `cmd:"" help:"List flows with their loss and delay."`
	Matrix    matrixCmd    `cmd:"" help:"Show the traffic matrix: packets and bytes between agents, labels, prefixes or hosts."`
	Report    reportCmd    `cmd:"" help:"Report what was measured in a month against the targets of a service."`
	Streams   streamsCmd   `cmd:"" help:"List the streams in the archive and their columns."`
	Retention retentionCmd `cmd:"" help:"Show or set how long the archive keeps streams and roll-ups."`
	Query     queryCmd     `cmd:"" help:"Query the archive in SQL."`
	Export    exportCmd    `cmd:"" help:"Export rows of a stream to a file."`
	kong.Plugins
	Tail       tailCmd       `cmd:"" help:"Print new rows as they arrive."`
	Events     eventsCmd     `cmd:"" help:"List events."`
	Doctor     doctorCmd     `cmd:"" help:"Run diagnostic checks on agents."`
	Token      tokenCmd      `cmd:"" help:"Manage tokens of users, programs and joining hosts."`
	Health     healthCmd     `cmd:"" help:"Check the health of the server; exit code 1 if it is unhealthy."`
	Login      loginCmd      `cmd:"" help:"Save a server and a token in the configuration file."`
	Licenses   licensesCmd   `cmd:"" help:"Print the licences of this program and of the software it contains."`
	Version    versionCmd    `cmd:"" help:"Print the versions of this program and the server."`
	Man        manCmd        `cmd:"" help:"Print the manual page of this program."`
	Completion completionCmd `cmd:"" help:"Print the completion script for a shell."`
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, args); err != nil {
		return fail(os.Stderr, ctx, err)
	}
	return 0
}

func newParser(ctx context.Context, line *cli) (*kong.Kong, error) {
	line.Plugins = wings.Commands()
	return command.New(ctx, "pillion", "In-band one-way delay and loss measurement of production traffic.", line,
		kong.Bind(manual),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(decodeTime)),
		kong.TypeMapper(reflect.TypeFor[session.PointRequest](), kong.MapperFunc(decodePoint)))
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
	parsed, err := parser.Parse(command.Conventional(args, "version", "--client"))
	if err != nil {
		return command.Named(nil, fmt.Errorf("%w: %w", errUsage, err))
	}
	a, err := newApp(&line.connection)
	if err != nil {
		return err
	}
	defer a.close()
	if err := parsed.BindToProvider(a.dial); err != nil {
		return err
	}
	if every := everyOf(parsed); every > 0 {
		return command.Named(parsed, a.repeat(ctx, every, "pillion "+strings.Join(args, " "), func() error { return parsed.Run(a) }))
	}
	return command.Named(parsed, parsed.Run(a))
}
