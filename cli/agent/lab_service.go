package agent

import (
	"context"
	"slices"

	"pillion.dev/lab"
)

// servicesOf is embedded by commands for the programs of a host.
type servicesOf struct {
	whichLab
	Host string `arg:"" help:"The host."`
}

// open returns the lab, and the names of the host's programs in the order in which they start.
func (s servicesOf) open() (*lab.Lab, []string, error) {
	up, err := lab.Open(s.Lab)
	if err != nil {
		return nil, nil, err
	}
	names, err := up.ServicesOn(s.Host)
	return up, names, err
}

type labStopCmd struct {
	servicesOf
	Kill bool `help:"Send SIGKILL, like a crash."`
}

// Run stops the programs on the host: the agent before the server.
func (c *labStopCmd) Run() error {
	up, names, err := c.open()
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

type labStartCmd struct{ servicesOf }

// Run starts the programs on the host again. It waits until a server is ready, but not
// for an agent.
func (c *labStartCmd) Run(ctx context.Context) error {
	up, names, err := c.open()
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
