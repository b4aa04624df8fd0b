//go:build long

package source

import (
	"testing"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// TestLongTransparencyWithoutLinkHeader attaches both ends to devices that have none,
// which no test run can show.
func TestLongTransparencyWithoutLinkHeader(t *testing.T) {
	name := namespace.New(t)
	for _, encoding := range encodings {
		t.Run(encoding.String(), func(t *testing.T) {
			err := netns.Do(name, func() error {
				through(t, encoding, 400)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
