package agent_test

import (
	"pillion.dev/cli/agent"
	oml "pillion.dev/oml/cli/agent"
	collector "pillion.dev/oml/cli/server"
	send "pillion.dev/send/cli/agent"
	study "pillion.dev/study/cli/agent"
)

// The tests run the whole programs.
func init() {
	agent.Register(study.Wing(), send.Wing(), oml.Wing())
	collector.Register()
}
