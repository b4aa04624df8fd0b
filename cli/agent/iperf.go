package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"pillion.dev/agent/iperf"
	"pillion.dev/agent/report"
	"pillion.dev/cli/command"
)

type iperfCmd struct {
	reportFlags
	Program string   `name:"iperf3" default:"iperf3" placeholder:"PATH" help:"Path of iperf3 (${default})."`
	Args    []string `arg:"" optional:"" passthrough:"" help:"Arguments of iperf3, after --."`
}

// Run runs iperf3 and reports its rows.
func (c *iperfCmd) Run(ctx context.Context) error {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return fmt.Errorf("run iperf3: %w: arguments are missing, such as -- -c HOST", command.ErrUsage)
	}
	uri := cmp.Or(c.OML, net.JoinHostPort("127.0.0.1", report.DefaultPort))
	to, err := c.open(uri, "iperf3", iperf.Points())
	if err != nil {
		return err
	}
	result, err := iperf.Run(ctx, iperf.Options{Program: c.Program, Args: slices.Clone(args), Report: to, Errors: os.Stderr})
	err = errors.Join(err, finish(to))
	fmt.Fprintf(os.Stderr, "reported %d rows to %s\n", result.Rows, uri)
	if result.Code != 0 {
		text := ""
		if result.Fault != "" {
			text = ": " + result.Fault
		}
		return errors.Join(exitError{result.Code, text}, err)
	}
	return err
}
