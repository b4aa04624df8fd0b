// Package layout has the tests of the tree as a whole: which room imports which, sizes and names of files, language,
// documents, and how many files an extension takes. They run in the root of the repository.
package layout

import (
	"os"
	"testing"

	"pillion.dev/internal/test/root"
)

func TestMain(m *testing.M) { os.Exit(root.Main(m)) }
