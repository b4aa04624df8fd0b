package server_test

import (
	oml "pillion.dev/oml/cli/server"
	_ "pillion.dev/send/traffic" // registers the point send
)

func init() { oml.Register() }
