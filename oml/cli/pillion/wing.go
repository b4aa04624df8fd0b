// Package pillion has the commands of pillion about applications that use OML's protocol.
package pillion

import (
	"pillion.dev/cli/command"
	"pillion.dev/oml/omsp/scaffold"
)

type commands struct {
	OML omlCmd `cmd:"" name:"oml" help:"List and export measurements of applications that use OML's protocol."`
}

// Wing is what pillion registers.
func Wing() command.Wing {
	return command.Wing{Commands: func() any { return &commands{} }, Hints: []command.Hint{
		command.Correctable(command.Is(scaffold.ErrDescription), "correct the line; pillion oml scaffold --help shows an example"),
		command.Correctable(command.Is(errDomain), "pillion oml domains lists the names"),
	}}
}
