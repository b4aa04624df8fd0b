// Command pillion-agent measures on one host and builds labs to measure in.
package main

import (
	"os"

	"pillion.dev/cli/agent"
	oml "pillion.dev/oml/cli/agent"
	send "pillion.dev/send/cli/agent"
	study "pillion.dev/study/cli/agent"
)

func main() {
	agent.Register(study.Wing(), send.Wing(), oml.Wing())
	os.Exit(agent.Main(os.Args[1:]))
}
