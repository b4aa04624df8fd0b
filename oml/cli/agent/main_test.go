package agent

import (
	"testing"

	"pillion.dev/cli/agent"
	"pillion.dev/cli/commandtest"
)

// TestMain runs the program with this wing alone in a process that a test starts as such.
func TestMain(m *testing.M) {
	agent.Register(Wing())
	commandtest.Main(m, agent.Main)
}
