// Package agent has the commands of pillion-agent that send packets.
package agent

import (
	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
	"pillion.dev/send"
	"pillion.dev/send/arrival"
	"pillion.dev/send/dispatch"
	"pillion.dev/send/estimator"
	"pillion.dev/send/frame"
	"pillion.dev/send/schedule"
	"pillion.dev/send/search"
	"pillion.dev/send/stream"
	_ "pillion.dev/send/task" // registers the point send
	"pillion.dev/send/tester"
)

// commands has one field and one file per command.
type commands struct {
	Send      sendCmd      `cmd:"" help:"Send packets at exact times and report when each left."`
	Estimate  estimateCmd  `cmd:"" help:"Estimate the capacity, the available bandwidth or the links of a path."`
	Benchmark benchmarkCmd `cmd:"" help:"Benchmark the devices between two interfaces of this host (RFC 2544, RFC 8219)."`
	Receive   receiveCmd   `cmd:"" help:"Receive the packets of estimates on another host, and tell it when they arrived."`
	Discard   discardCmd   `cmd:"" help:"Accept TCP connections and discard what they receive: the far end of send --proto tcp-stream."`
}

// Wing is what pillion-agent registers.
func Wing() command.Wing {
	return command.Wing{Commands: func() any { return &commands{} }, Vars: kong.Vars{"mechanisms": mechanisms()}, Hints: []command.Hint{
		command.Correctable(command.Is(dispatch.ErrMechanism), "pillion-agent send --help lists the mechanisms; omit --mechanism to use the first that works"),
		command.Correctable(command.Is(schedule.ErrFile), "docs/reference/schedules.md documents the format of schedules"),
		command.Correctable(command.Is(schedule.ErrPattern), "see pillion-agent send --help for the options of a pattern"),
		command.Correctable(command.Is(frame.ErrHeader), "see pillion-agent send --help for the options of headers and sizes"),
		command.Correctable(command.Is(tester.ErrOptions), "see COMMAND --help for the options and their units"),
		command.Correctable(command.Is(search.ErrRange), "--resolution and --step are shares such as 0.5%, and --max-rate is above 10 frames per trial"),
		command.Correctable(command.Is(tester.ErrPath), "check the addresses and routes on the way, that the device under test forwards, and --receive-dev and --receive-netns"),
		command.Correctable(command.Is(stream.ErrConnect), "start pillion-agent discard --listen ADDRESS:PORT at the far end, and check the route to it"),
		command.Correctable(command.Is(send.ErrUnreachable), "check the address and the routes of the network namespace (ip route get ADDRESS); an IPv6 address with a port is written [ADDRESS]:PORT"),
		command.Correctable(command.Is(estimator.ErrToken), "give the sender the same token: --token-file FILE"),
		command.Correctable(command.Is(estimator.ErrReceiver), "start pillion-agent receive on the far host; both sides need the same --token-file"),
		command.Correctable(command.Is(arrival.ErrFlow), "the packets must be UDP, TCP or ICMP; see pillion-agent estimate --help"),
	}}
}
