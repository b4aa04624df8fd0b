package codec_test

import (
	"os"
	"testing"
)

// missing ends a test whose tool is not installed: in CI that is a failure.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}
