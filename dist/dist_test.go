// Package dist has the tests of what is distributed: programs, packages, images, the chart, and the
// site of the documents, and of what they are made from. They run in the root of the repository.
package dist

import (
	"os"
	"testing"

	"pillion.dev/internal/test/root"
)

func TestMain(m *testing.M) { os.Exit(root.Main(m)) }
