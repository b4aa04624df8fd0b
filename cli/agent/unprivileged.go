package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"pillion.dev/agent/confine"
	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
)

// unprivilegedCmd is started by run, with the connection to it as file 3.
type unprivilegedCmd struct{}

// Run gives up what is left of the privileges before it reads anything.
func (c *unprivilegedCmd) Run(ctx context.Context) error {
	name := []byte("pillion-agent\x00") // not exe, as of /proc/self/exe
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
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
