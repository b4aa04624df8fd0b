// Command pillion-server collects measurements and serves the API and the web page.
package main

import (
	"os"

	"pillion.dev/cli/server"
)

func main() { os.Exit(server.Main(os.Args[1:])) }
