package agent

import (
	"testing"

	"github.com/alecthomas/kong"

	"pillion.dev/cli/command"
)

// newParser is the parser of this wing's commands alone.
func newParser(t *testing.T) (*kong.Kong, error) {
	t.Helper()
	wing := Wing()
	return command.New(t.Context(), "pillion-agent", "", wing.Commands(), wing.Vars)
}
