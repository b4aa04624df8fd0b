package server

import (
	oml "pillion.dev/oml/cli/server"
	_ "pillion.dev/send/traffic" // registers the point send
)

func init() { oml.Register() }
