package server

import (
	"fmt"
	"time"

	"pillion.dev/server/backup"
	"pillion.dev/server/steady"
)

type clockCmd struct {
	place
	Accept bool `help:"Confirm this machine's clock: from the next minute on, or the next start, rows that are old by it are removed."`
}

// Help describes the command.
func (clockCmd) Help() string {
	return `Old rows are removed by the time that elapses. When the machine's clock differs from that by more than a day, or
from the clocks of most agents, none is removed by its age until it agrees again, or --accept confirms it: after the
machine was off for weeks without agents, or after its clock was wrong before and has been corrected. Check the clock
first (timedatectl).

Run it on the server's machine, as root or as the server's user.

Example:

  pillion-server clock --accept`
}

// Run prints the state of the clock, or confirms it.
func (c *clockCmd) Run() error {
	folder, _, err := c.paths()
	if err != nil {
		return err
	}
	now := time.Now()
	if c.Accept {
		path, err := steady.Accept(folder, now)
		if err == nil {
			err = backup.GiveAway(folder, path)
		}
		if err != nil {
			return fmt.Errorf("confirm clock: %w", err)
		}
		fmt.Printf("confirmed %s: a running server removes old rows by it within a minute\n", now.Format(time.DateTime))
		return nil
	}
	saved, held, err := steady.Read(folder)
	if err != nil {
		return fmt.Errorf("read clock: %w", err)
	}
	fmt.Printf("this machine: %s\nserver, when it last saved: %s\n", now.Format(time.DateTime), saved.Local().Format(time.DateTime))
	if held == "" {
		held = "no"
	}
	fmt.Printf("retention held: %s\n", held)
	return nil
}
