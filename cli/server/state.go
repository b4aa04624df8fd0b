package server

import (
	"context"
	"fmt"

	"pillion.dev/cli/command"
	"pillion.dev/internal/quantity"
	"pillion.dev/server"
)

type stateCmd struct {
	Export exportStateCmd `cmd:"" help:"Write the state of a fleet into a directory."`
	Import importStateCmd `cmd:"" help:"Make the state of a single server that of a fleet."`
}

// member is a server of a fleet.
type member struct {
	place
	NATS string `name:"nats" help:"URL of the NATS cluster; default: that of the configuration." placeholder:"URL"`
}

func (m *member) settings() (server.Config, error) {
	run := runCmd{Config: m.Config, Data: m.Data, NATS: m.NATS}
	return run.settings()
}

type exportStateCmd struct {
	member
	Destination string `arg:"" help:"New or empty directory." type:"path"`
}

// Help describes the command.
func (exportStateCmd) Help() string {
	return `The state is agents, sessions, assignments, tokens, revocations and the tables of applications, which the
servers of a fleet keep in their NATS cluster. Run the command on the machine of one of the servers, which may run.
The directory becomes a data directory without rows: a single server starts with it, and 'pillion-server state import
--data DIR' brings it back to a cluster that has lost it. It contains the key of the certificate authority: keep it as
secret as the data directory.

Example:

  pillion-server state export --config /etc/pillion/server.yaml /srv/backup/state-monday`
}

// Run exports the state.
func (c *exportStateCmd) Run(ctx context.Context) error {
	config, err := c.settings()
	if err != nil {
		return err
	}
	items, err := server.ExportState(ctx, config, c.Destination, command.Log(false))
	if err != nil {
		return err
	}
	fmt.Printf("exported %s to %s\n", quantity.Count(int64(items), "item"), c.Destination)
	return nil
}

type importStateCmd struct {
	member
}

// Help describes the command.
func (importStateCmd) Help() string {
	return `The data directory is that of a single server, which must not run, or one that 'pillion-server state export' has
made. The fleet must have no other state yet. Its servers need the key of the certificate authority in that directory,
authority/authority.pem. The directory is not changed. Rows stay where they are.

Example:

  pillion-server state import --data /var/lib/pillion-server --nats tls://nats1.example.net:4222`
}

// Run imports the state.
func (c *importStateCmd) Run(ctx context.Context) error {
	config, err := c.settings()
	if err != nil {
		return err
	}
	items, err := server.ImportState(ctx, config, command.Log(false))
	if err != nil {
		return err
	}
	fmt.Printf("imported %s from %s\n", quantity.Count(int64(items), "item"), config.Folder)
	return nil
}
