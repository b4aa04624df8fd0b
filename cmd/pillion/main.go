// Command pillion is the client of pillion-server.
package main

import (
	"os"

	"pillion.dev/cli/pillion"
)

func main() { os.Exit(pillion.Main(os.Args[1:])) }
