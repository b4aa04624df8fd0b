package agent

import (
	"context"
	"slices"

	"pillion.dev/lab"
)

type labStopCmd struct {
	whichLab
	Host string `arg:"" help:"The host."`
	Kill bool   `help:"Send SIGKILL, like a crash."`
}

// Run stops the programs on the host: the agent before the server.
func (c *labStopCmd) Run() error {
	up, err := lab.Open(c.Lab)
	if err != nil {
		return err
	}
	names, err := up.ServicesOn(c.Host)
	if err != nil {
		return err
	}
	end := up.EndService
	if c.Kill {
		end = up.KillService
	}
	for _, name := range slices.Backward(names) {
		if err := end(name); err != nil {
			return err
		}
	}
	return nil
}

type labStartCmd struct {
	whichLab
	Host string `arg:"" help:"The host."`
}

// Run starts the programs on the host again. It waits until a server is ready, but not
// for an agent.
func (c *labStartCmd) Run(ctx context.Context) error {
	up, err := lab.Open(c.Lab)
	if err != nil {
		return err
	}
	names, err := up.ServicesOn(c.Host)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := up.StartService(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
