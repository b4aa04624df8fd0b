//go:build long

package module

import (
	"testing"

	"pillion.dev/internal/test/buildtag"
)

// TestLongToyModule is TestToyModule with every encoding, set of modules and hook, and with a
// session between two agents: from the specification to the archive.
func TestLongToyModule(t *testing.T) {
	overlay, _ := addToy(t)
	runOverlaid(t, overlay, "./probe/module", buildtag.With("toy"), "-run", "^TestToyPackets$", "-args", "-toylong")
	runOverlaid(t, overlay, "./lab", buildtag.With("toy"), "-run", "^TestToySession$")
}
