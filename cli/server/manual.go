package server

import (
	_ "embed"

	"pillion.dev/cli/command"
)

//go:embed manual.md
var manualText string

// manual of the program, beside its help.
var manual = command.Manual{Section: 8, Text: manualText, See: []string{"pillion(1)", "pillion-agent(8)"}}
