package pillion

import (
	_ "embed"

	"pillion.dev/cli/command"
)

//go:embed manual.md
var manualText string

// manual of the program, beside its help.
var manual = command.Manual{Section: 1, Text: manualText, See: []string{"pillion-agent(8)", "pillion-server(8)"}}

type manCmd struct{ command.Man }

// Help shows an example.
func (manCmd) Help() string { return "Example:\n\n  pillion man" }
