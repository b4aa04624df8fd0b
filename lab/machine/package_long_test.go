//go:build long

package machine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packageFolder is where .ci/kernel puts Debian's packages.
func packageFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "pillion", "kernel"), nil
}

// unpack unpacks the newest version of a package in the cache, which the pattern names, into a folder.
func unpack(t *testing.T, folder, pattern, architecture string) {
	t.Helper()
	cache, err := packageFolder()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, pattern+"_*_"+architecture+".deb"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		lack(t, pattern+" for "+architecture+" in "+cache, ".ci/kernel")
	}
	slices.SortFunc(found, olderFirst)
	call(t, "dpkg-deb", "-x", found[len(found)-1], folder)
}

func olderFirst(a, b string) int {
	if a == b {
		return 0
	}
	if exec.Command("dpkg", "--compare-versions", filepath.Base(a), "lt", filepath.Base(b)).Run() == nil {
		return -1
	}
	return 1
}

// call runs a command of this machine and returns its output.
func call(t *testing.T, command ...string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	c := exec.Command(command[0], command[1:]...)
	c.Stderr = &stderr
	output, err := c.Output()
	if err != nil {
		t.Fatalf("run %s: %v: %s", strings.Join(command, " "), err, stderr.String())
	}
	return output
}
