// Package agent is the command line of the program pillion-agent, which measures on
// one host and builds labs to measure in. It parses flags, prints reports and hints,
// and leaves the work to the rooms agent and lab.
package agent

import (
	"context"
	"os"

	"github.com/alecthomas/kong"

	"pillion.dev/agent/policy"
	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
)

// wings are what Register added.
var wings command.Wings

// Register adds commands of wings to the program. Call it before Main.
func Register(more ...command.Wing) { wings = append(wings, more...) }

// cli is the command line, with one field and one file per command.
type cli struct {
	Run         runCmd                        `cmd:"" help:"Join a server and run as its agent."`
	Part        unprivilegedCmd               `cmd:"" name:"unprivileged" hidden:"" help:"The part of run that speaks to the network; started by run."`
	Check       command.Check[service.Config] `cmd:"" help:"Check a configuration file of run."`
	Policy      policyCmd                     `cmd:"" help:"Show or check what this host lets sessions do."`
	Source      sourceCmd                     `cmd:"" help:"Mark outgoing packets of a network interface."`
	Destination destinationCmd                `cmd:"" help:"Read and remove the marks of incoming packets of a network interface."`
	kong.Plugins
	Doctor   doctorCmd        `cmd:"" help:"Check whether this host can measure, with advice."`
	Lab      labCmd           `cmd:"" help:"Build and control testbeds of network namespaces and emulated links."`
	Licenses command.Licenses `cmd:"" help:"Print the licences of this program and of the software it contains."`
	Man      command.Man      `cmd:"" help:"Print the manual page of this program."`
	Version  command.Version  `cmd:"" help:"Print the version of this program."`
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	if err := command.Run(args, newParser); err != nil {
		return Fail(os.Stderr, err)
	}
	return 0
}

func newParser(ctx context.Context) (*kong.Kong, error) {
	return command.New(ctx, "pillion-agent", "In-band one-way delay and loss measurement of production traffic.", &cli{Plugins: wings.Commands()},
		kong.Vars{"folder": service.DefaultFolder, "oml": service.DefaultOML, "policy": policy.DefaultFile}, wings.Vars(), kong.Bind(service.ReadConfig, manual))
}
