package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"pillion.dev/agent/doctor"
	"pillion.dev/cli/command"
	"pillion.dev/session"
)

// errUnfit is a failed check.
var errUnfit = errors.New("this host cannot measure")

type doctorCmd struct {
	JSON bool     `help:"Print the checks as JSON."`
	Data string   `help:"Data directory of the agent, whose free space is checked; default: ${folder}." placeholder:"DIR"`
	Peer []string `help:"IP address that must be reachable, not the name of an agent. Repeatable." placeholder:"ADDRESS"`
}

// Help has the examples.
func (doctorCmd) Help() string {
	return `This command uses no server, so it cannot look up the addresses of an agent; pillion doctor AGENT --peer AGENT checks agents by name.

Examples:

  pillion-agent doctor
  pillion-agent doctor --peer 192.0.2.7 --peer 2001:db8::7`
}

// Run checks this host, without a server.
func (c *doctorCmd) Run(ctx context.Context) error {
	options := doctor.Options{Folder: c.Data}
	for _, address := range c.Peer {
		if _, err := netip.ParseAddr(address); err != nil {
			return fmt.Errorf("read --peer %.80q: %w: use an IP address, such as 192.0.2.7; pillion doctor takes names of agents", address, command.ErrValue)
		}
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
