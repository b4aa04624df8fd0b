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

// cli is the command line: one field and one file for each command.
type cli struct {
	Run         runCmd         `cmd:"" help:"Join a server and work for it."`
	Check       checkCmd       `cmd:"" help:"Say what is wrong with a configuration file of run, and end."`
	Source      sourceCmd      `cmd:"" help:"Mark the packets that leave a device."`
	Destination destinationCmd `cmd:"" help:"Read the marks of packets that come to a device, and take them out."`
	Router      routerCmd      `cmd:"" help:"Profile the router in a network namespace: where packets wait, and what becomes of them."`
	Capture     captureCmd     `cmd:"" help:"Report the headers of packets on a device or in a file."`
	Iperf3      iperfCmd       `cmd:"" name:"run-iperf3" help:"Run iperf3 and report what it measures."`
	Doctor      doctorCmd      `cmd:"" help:"Check whether this host can measure, and say what to do."`
	Lab         labCmd         `cmd:"" help:"Build testbeds of network namespaces and emulated links."`
	Version     versionCmd     `cmd:"" help:"Print the build of this program."`
}

type versionCmd struct{}

// Run prints the build.
func (versionCmd) Run() error {
	_, err := fmt.Println("pillion-agent", version.String())
	return err
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	if err := run(args); err != nil {
		return complain(os.Stderr, err)
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
		return fmt.Errorf("read command line: %w: %w", errUsage, err)
	}
	return command.Run()
}
