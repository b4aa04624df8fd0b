package server

import (
	"fmt"
	"time"

	"pillion.dev/server/backup"
	"pillion.dev/server/steady"
)

type acceptClockCmd struct{ place }

// Help describes the command.
func (acceptClockCmd) Help() string {
	return `Old rows are removed by the time that elapses. When the machine's clock differs from that by more than a day, or
from the clocks of most agents, none is removed by its age until it agrees again, or this command confirms it: after the
machine was off for weeks without agents, or after its clock was wrong before and has been corrected. Check the clock
first (timedatectl). A running server removes what is old by the clock within a minute, another at its next start.

Run it on the server's machine, as root or as the server's user.

Example:

  pillion-server accept-clock`
}

// Run confirms the clock.
func (c *acceptClockCmd) Run() error {
	folder, _, err := c.paths()
	if err != nil {
		return err
	}
	now := time.Now()
	path, err := steady.Accept(folder, now)
	if err == nil {
		err = backup.GiveAway(folder, path)
	}
	if err != nil {
		return fmt.Errorf("confirm clock: %w", err)
	}
	fmt.Printf("confirmed that it is %s\n", now.Format(time.DateTime))
	return nil
}
