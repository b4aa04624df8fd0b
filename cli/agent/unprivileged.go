package agent

import (
	"context"
	"fmt"
	"net"
	"os"

	"pillion.dev/agent/confine"
	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
)

// unprivilegedCmd is started by run, with the connection to it as file 3.
type unprivilegedCmd struct{}

// Run gives up what is left of the privileges before it reads anything.
func (c *unprivilegedCmd) Run(ctx context.Context) error {
	if err := confine.Seal(); err != nil {
		return err
	}
	file := os.NewFile(3, "link")
	conn, err := net.FileConn(file)
	if err != nil {
		return fmt.Errorf("use connection to the privileged part: %w: pillion-agent run starts this command", err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	return service.RunUnprivileged(ctx, conn, command.Log)
}
