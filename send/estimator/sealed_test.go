package estimator

import (
	"os"
	"testing"

	"pillion.dev/internal/test/sealed"
)

func TestMain(m *testing.M) { os.Exit(sealed.Main(m)) }
