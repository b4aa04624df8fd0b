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

// cli is the command line, with one field and one file per command.
type cli struct {
	Run         runCmd                        `cmd:"" help:"Join a server and run as its agent."`
	Part        unprivilegedCmd               `cmd:"" name:"unprivileged" hidden:"" help:"The part of run that speaks to the network; started by run."`
	Check       command.Check[service.Config] `cmd:"" help:"Check a configuration file of run."`
	Policy      policyCmd                     `cmd:"" help:"Show or check what this host lets sessions do."`
	Source      sourceCmd                     `cmd:"" help:"Mark outgoing packets of a network interface."`
	Destination destinationCmd                `cmd:"" help:"Read and remove the marks of incoming packets of a network interface."`
	Router      routerCmd                     `cmd:"" help:"Profile the router in a network namespace: where packets wait or are dropped."`
	Send        sendCmd                       `cmd:"" help:"Send packets at exact times and report when each left."`
	Estimate    estimateCmd                   `cmd:"" help:"Estimate the capacity, the available bandwidth or the links of a path."`
	Benchmark   benchmarkCmd                  `cmd:"" help:"Benchmark the devices between two interfaces of this host (RFC 2544, RFC 8219)."`
	Receive     receiveCmd                    `cmd:"" help:"Receive the packets of estimates on another host, and tell it when they arrived."`
	Discard     discardCmd                    `cmd:"" help:"Accept TCP connections and discard what they receive: the far end of send --proto tcp-stream."`
	Capture     captureCmd                    `cmd:"" help:"Report the packet headers on an interface or in a capture file."`
	Nmetrics    nmetricsCmd                   `cmd:"" help:"Report the load of this host and of processes, with OML's nmetrics points."`
	Iperf3      iperfCmd                      `cmd:"" name:"run-iperf3" help:"Run iperf3 and report its measurements."`
	Doctor      doctorCmd                     `cmd:"" help:"Check whether this host can measure, with advice."`
	Lab         labCmd                        `cmd:"" help:"Build and control testbeds of network namespaces and emulated links."`
	Licenses    command.Licenses              `cmd:"" help:"Print the licences of this program and of the software it contains."`
	Man         command.Man                   `cmd:"" help:"Print the manual page of this program."`
	Version     command.Version               `cmd:"" help:"Print the version of this program."`
}

// Main runs the program with the arguments after its name and returns the exit code.
func Main(args []string) int {
	if err := command.Run(args, newParser); err != nil {
		return fail(os.Stderr, err)
	}
	return 0
}

func newParser(ctx context.Context) (*kong.Kong, error) {
	return command.New(ctx, "pillion-agent", "In-band one-way delay and loss measurement of production traffic.", &cli{},
		kong.Vars{"folder": service.DefaultFolder, "oml": service.DefaultOML, "mechanisms": mechanisms(), "policy": policy.DefaultFile}, kong.Bind(service.ReadConfig, manual))
}
