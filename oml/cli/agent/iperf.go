package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/command"
	"pillion.dev/oml/iperf"
	"pillion.dev/oml/report"
)

type iperfCmd struct {
	agent.ReportFlags
	Style   string   `enum:"intervals,aggregates,packets" default:"intervals" placeholder:"STYLE" help:"What is reported: intervals: iperf3's own numbers; aggregates: transfer, losses and jitter, as by OML's iperf -y o; packets: number, size, sent and received time of each UDP packet, as by -y O; default ${default}."`
	Dev     string   `placeholder:"DEV" help:"Network interface that the packets of --style packets pass; requires CAP_NET_RAW."`
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
	style := iperf.Style(c.Style)
	if (c.Dev != "") != (style == iperf.PerPacket) {
		return fmt.Errorf("run iperf3: %w: --style packets and --dev require each other", command.ErrUsage)
	}
	uri := cmp.Or(c.OML, net.JoinHostPort("127.0.0.1", report.DefaultPort))
	to, err := c.Open(uri, style.App(), style.Points())
	if err != nil {
		return err
	}
	result, err := iperf.Run(ctx, iperf.Options{Program: c.Program, Args: slices.Clone(args), Report: to, Errors: os.Stderr, Style: style, Device: c.Dev})
	err = errors.Join(err, agent.Finish(to))
	fmt.Fprintf(os.Stderr, "reported %d rows to %s\n", result.Rows, uri)
	if result.Code != 0 {
		text := fmt.Sprintf("iperf3 exited with %d", result.Code)
		if result.Fault != "" {
			text += ": " + result.Fault
		}
		return errors.Join(agent.Exit{Code: result.Code, Text: text}, err)
	}
	return err
}
