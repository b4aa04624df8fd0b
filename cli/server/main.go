// Package server is the command line of the program pillion-server, to which agents
// report and which clients query. It needs no privileges.
package server

import (
	"context"
	"os"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"pillion.dev/archive/transfer"
	"pillion.dev/cli/command"
	"pillion.dev/internal/store"
	"pillion.dev/server"
	"pillion.dev/server/backup"
)

type cli struct {
	Run      runCmd                       `cmd:"" default:"withargs" help:"Run the server (the default)."`
	Backup   backupCmd                    `cmd:"" help:"Copy the data directory, also of a running server."`
	Restore  restoreCmd                   `cmd:"" help:"Restore a backup to an empty data directory."`
	Token    tokenCmd                     `cmd:"" help:"Print one of the tokens that the first start created."`
	Accept   acceptClockCmd               `cmd:"" name:"accept-clock" help:"Confirm the machine's clock, so that old rows are removed by it."`
	NATS     natsCmd                      `cmd:"" name:"nats" help:"Write the configuration of a node of an external NATS cluster."`
	State    stateCmd                     `cmd:"" help:"Move agents, sessions and tokens between a data directory and the NATS cluster of a fleet."`
	Archive  archiveCmd                   `cmd:"" help:"Copy the archive of a single server into that of a fleet, or recover a damaged one."`
	Check    command.Check[server.Config] `cmd:"" help:"Check a configuration file."`
	Licenses command.Licenses             `cmd:"" help:"Print the licences of this program and of the software it contains."`
	Man      command.Man                  `cmd:"" help:"Print the manual page of this program."`
	Version  command.Version              `cmd:"" help:"Print the version of this program."`
}

var hints = []command.Hint{
	command.Correctable(command.Is(command.ErrUsage), "see pillion-server --help"),
	command.Correctable(command.Is(server.ErrConfig), "correct the file; docs/reference/server.md lists the keys"),
	command.Correctable(command.Is(backup.ErrNotEmpty), "nothing was changed"),
	command.Correctable(command.Is(server.ErrState), "nothing was changed; docs/howto/migration.md"),
	command.Correctable(command.Is(transfer.ErrOpened), "stop all servers of the fleet, and repeat the command with --servers-stopped"),
	command.Failure(command.Is(transfer.ErrContinued), "docs/howto/migration.md"),
	command.Failure(command.Is(errDiffers), "repeat the command; docs/howto/migration.md"),
	command.Correctable(command.Is(errNoToken), "the first start of the server creates it; pillion token create makes others"),
	command.Failure(command.Is(store.ErrNewer), "docs/howto/upgrade.md, Downgrades"),
	command.Failure(addressInUse, "another program uses this address; --http, --nats-listen and --oml select others"),
}

// addressInUse recognises the error by its text: NATS does not wrap its cause.
func addressInUse(err error) bool {
	return strings.Contains(err.Error(), syscall.EADDRINUSE.Error())
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	if err := command.Run(args, newParser); err != nil {
		return command.Fail(os.Stderr, "pillion-server", err, hints)
	}
	return 0
}

func newParser(ctx context.Context) (*kong.Kong, error) {
	return command.New(ctx, "pillion-server", "Run measurements on many hosts and archive their results.", &cli{},
		kong.Vars{"folder": server.DefaultFolder, "http": server.DefaultHTTP, "bus": server.DefaultBus, "oml": server.DefaultOML, "archive": server.DefaultArchive}, kong.Bind(checkConfig, manual))
}
