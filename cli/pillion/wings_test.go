package pillion_test

import (
	"pillion.dev/cli/pillion"
	oml "pillion.dev/oml/cli/pillion"
	collector "pillion.dev/oml/cli/server"
	_ "pillion.dev/send/traffic" // registers the point send
	study "pillion.dev/study/cli/pillion"
)

// The tests run the whole program, and servers.
func init() {
	pillion.Register(study.Wing(), oml.Wing())
	collector.Register()
}
