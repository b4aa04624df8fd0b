package server

import (
	"testing"

	"pillion.dev/cli/commandtest"
)

// TestOutputFiles: an output file is found, so that it is never one that replaces a device.
func TestOutputFiles(t *testing.T) {
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commandtest.Outputs{Others: []string{
		"run --config", "run --oml-token-file", "run --aggregate-token-file", "run --otlp-headers-file", "backup --config", "restore --config", "token --config",
		"accept-clock --config", "state export --config", "state import --config", "archive copy --config",
		"archive recover --config", "backup destination", "state export destination", "archive recover to", // new folders, and a new file
	}}.TestOutputFiles(t, parser)
}
