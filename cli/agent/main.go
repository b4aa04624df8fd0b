// Package agent is the command line of the program pillion-agent, which measures on
// one host and builds labs to measure in. It parses flags, prints reports and hints,
// and leaves the work to the rooms agent and lab.
package agent

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
	"pillion.dev/internal/version"
)

// cli is the command line, with one field and one file per command.
type cli struct {
	Run         runCmd         `cmd:"" help:"Join a server and run as its agent."`
	Check       checkCmd       `cmd:"" help:"Check a configuration file of run."`
	Source      sourceCmd      `cmd:"" help:"Mark outgoing packets of a network device."`
	Destination destinationCmd `cmd:"" help:"Read and remove the marks of incoming packets of a network device."`
	Router      routerCmd      `cmd:"" help:"Profile the router in a network namespace: where packets wait or are dropped."`
	Capture     captureCmd     `cmd:"" help:"Report the packet headers on a device or in a capture file."`
	Iperf3      iperfCmd       `cmd:"" name:"run-iperf3" help:"Run iperf3 and report its measurements."`
	Doctor      doctorCmd      `cmd:"" help:"Check whether this host can measure, with advice."`
	Lab         labCmd         `cmd:"" help:"Build and control testbeds of network namespaces and emulated links."`
	Version     versionCmd     `cmd:"" help:"Print the version of this program."`
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run() error {
	_, err := fmt.Println("pillion-agent", version.String())
	return err
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	if err := run(args); err != nil {
		return fail(os.Stderr, err)
	}
	return 0
}

func newParser(ctx context.Context) (*kong.Kong, error) {
	return command.New(ctx, "pillion-agent", "Measure a network with the traffic that is already on it.", &cli{},
		kong.Vars{"folder": service.DefaultFolder, "oml": service.DefaultOML})
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	parser, err := newParser(ctx)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	return command.Run()
}
