//go:build long

package fleet

import (
	"os"
	"testing"
	"time"
)

// TestLongHostileFleet: five of 200 agents flood the server for a minute, or as long as the
// environment variable FLOOD says.
func TestLongHostileFleet(t *testing.T) {
	duration := time.Minute
	if text := os.Getenv("FLOOD"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	hostileFleet(t, 200, 5, duration)
}
