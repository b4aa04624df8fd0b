// Command pillion-server collects measurements and serves the API and the web page.
package main

import (
	"os"

	"pillion.dev/cli/server"
	oml "pillion.dev/oml/cli/server"
	_ "pillion.dev/send/traffic" // registers the point send
)

func main() {
	oml.Register()
	os.Exit(server.Main(os.Args[1:]))
}
