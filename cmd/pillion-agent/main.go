// Command pillion-agent measures on one host and builds labs to measure in.
package main

import (
	"os"

	"pillion.dev/cli/agent"
)

func main() { os.Exit(agent.Main(os.Args[1:])) }
