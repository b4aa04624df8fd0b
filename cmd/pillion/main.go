// Command pillion is the client of pillion-server.
package main

import (
	"os"

	"pillion.dev/cli/pillion"
	oml "pillion.dev/oml/cli/pillion"
	_ "pillion.dev/send/traffic" // registers the point send
	study "pillion.dev/study/cli/pillion"
)

func main() {
	pillion.Register(study.Wing(), oml.Wing())
	os.Exit(pillion.Main(os.Args[1:]))
}
