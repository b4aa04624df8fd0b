package agent

import (
	"context"
	"slices"

	"pillion.dev/lab"
)

type labStopCmd struct {
	whichLab
	Host string `arg:"" help:"The host."`
	Kill bool   `help:"Give it no chance to do anything more, as a crash does."`
}

// Run ends what runs there: the agent before the server.
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

// Run starts what was ended there. It returns when a server is ready; it does not
// wait for an agent.
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
