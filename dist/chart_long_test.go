//go:build long

package dist

import (
	"os/exec"
	"testing"
)

// TestLongChart runs the tests of the chart for Kubernetes, which have a module of their own.
func TestLongChart(t *testing.T) {
	if said, err := exec.Command("go", "test", "-C", ".ci/helm", "-count=1", "-vet=off", ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
}
