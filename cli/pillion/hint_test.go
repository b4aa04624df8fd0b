package pillion

import (
	"errors"
	"testing"

	"connectrpc.com/connect"
)

// TestActionOnce: an action that the server's message names is not named twice.
func TestActionOnce(t *testing.T) {
	for _, row := range []struct{ doing, message, want string }{
		{"stop session x", `stop session "x": not found`, `stop session "x": not found`},
		{"query", "query: bad query: no table", "query: bad query: no table"},
		{"show agent x", `agent "x" not found`, `show agent x: agent "x" not found`},
		{"tail", "", "tail: unavailable"},
	} {
		err := failed(row.doing, connect.NewError(connect.CodeUnavailable, errors.New(row.message)))
		if err.Error() != row.want {
			t.Errorf("got %q, want %q", err, row.want)
		}
	}
}
