package runner

import (
	"os"
	"testing"

	"pillion.dev/internal/test/sealed"
)

func TestMain(m *testing.M) {
	if place := os.Getenv("PILLION_TEST_HOLD"); place != "" {
		holdPort(place)
		return
	}
	os.Exit(sealed.Main(m))
}
