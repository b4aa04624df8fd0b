// Package agent has the commands of pillion-agent that report by OML's protocol.
package agent

import (
	"log/slog"

	"pillion.dev/agent/loader"
	"pillion.dev/agent/report"
	"pillion.dev/agent/service"
	"pillion.dev/cli/command"
	"pillion.dev/measure/application"
	oml "pillion.dev/oml/agent"
	"pillion.dev/oml/capture"
	omsp "pillion.dev/oml/report"
)

// commands has one field and one file per command.
type commands struct {
	Capture  captureCmd  `cmd:"" help:"Report the packet headers on an interface or in a capture file."`
	Nmetrics nmetricsCmd `cmd:"" help:"Report the load of this host and of processes, with OML's nmetrics points."`
	Iperf3   iperfCmd    `cmd:"" name:"run-iperf3" help:"Run iperf3 and report its measurements."`
}

// Wing is what pillion-agent registers.
func Wing() command.Wing {
	report.Register(omsp.Open)
	loader.RegisterCapturer(capture.Devices{})
	service.RegisterApplications(func(folder string, shared []string, log *slog.Logger) (application.AgentBackend, error) {
		return oml.Open(folder, shared, log)
	})
	return command.Wing{Commands: func() any { return &commands{} }, Hints: []command.Hint{
		command.Correctable(command.Is(capture.ErrFilter), "docs/howto/capture.md documents filters: '[tcp|udp] [src|dst] host A, net P, port N', not, and, or, parentheses"),
		command.Correctable(command.Is(capture.ErrOptions), "for example pillion-agent capture --dev eth0, or --read FILE"),
		command.Correctable(command.Is(capture.ErrDevice), "ip link lists the interfaces of this network namespace"),
		command.Correctable(command.Is(capture.ErrLink), "use a supported link layer (docs/howto/capture.md)"),
		command.Correctable(command.Is(capture.ErrRights), "use sudo"),
		command.Correctable(command.Is(capture.ErrFile), "rows before the error are valid"),
	}}
}
