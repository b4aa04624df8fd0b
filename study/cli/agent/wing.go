// Package agent has the commands of pillion-agent that profile a router.
package agent

import (
	"pillion.dev/cli/command"
	"pillion.dev/probe/router"
)

// commands has one field and one file per command.
type commands struct {
	Router routerCmd `cmd:"" help:"Profile the router in a network namespace: where packets wait or are dropped."`
}

// Wing is what pillion-agent registers.
func Wing() command.Wing {
	return command.Wing{Commands: func() any { return &commands{} }, Hints: []command.Hint{
		command.Correctable(command.Is(router.ErrOptions), "see pillion-agent router --help for the values of an option"),
	}}
}
