package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"pillion.dev/agent/doctor"
	"pillion.dev/session"
)

// errUnfit is a failed check.
var errUnfit = errors.New("this host cannot measure")

type doctorCmd struct {
	JSON bool     `help:"Print the checks as JSON."`
	Data string   `help:"Data directory of the agent, whose free space is checked; default: ${folder}." placeholder:"DIR"`
	Peer []string `help:"Addresses that must be reachable." placeholder:"ADDRESS"`
}

// Run checks this host, without a server.
func (c *doctorCmd) Run(ctx context.Context) error {
	options := doctor.Options{Folder: c.Data}
	for _, address := range c.Peer {
		options.Peers = append(options.Peers, session.Peer{Addresses: []string{address}})
	}
	return c.report(os.Stdout, doctor.Check(ctx, options))
}

// report prints the checks and fails if one is an error.
func (c *doctorCmd) report(w io.Writer, checks []session.Check) error {
	var err error
	if c.JSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(checks)
	} else {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, check := range checks {
			fmt.Fprintf(table, "%s\t%s\t%s\n", check.Level, check.Name, check.Found)
			if check.Advice != "" {
				fmt.Fprintf(table, "\t\t-> %s\n", check.Advice)
			}
		}
		err = table.Flush()
	}
	if err != nil {
		return fmt.Errorf("print checks: %w", err)
	}
	var bad []string
	for _, check := range checks {
		if check.Level == doctor.Error {
			bad = append(bad, check.Name)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("check host: %w: %s", errUnfit, strings.Join(slices.Compact(bad), ", "))
	}
	return nil
}
