// Package namespace makes network namespaces for tests.
package namespace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/vishvananda/netlink"

	"pillion.dev/internal/netns"
)

// TB is the part of testing.TB that New needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

var made atomic.Uint32

// New creates a namespace for one test, with lo up, and deletes it afterwards.
// It returns the name. Without root the test is skipped, in CI it fails.
func New(t TB) string {
	t.Helper()
	NeedRoot(t)
	name := fmt.Sprintf("pt-%d-%d", os.Getpid(), made.Add(1))
	if err := netns.Create(name); err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := netns.Delete(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%v", err)
		}
	})
	err := netns.Do(name, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatalf("set lo up in %s: %v", name, err)
	}
	return name
}

// NeedRoot skips the test of an ordinary user; in CI, which is root, it fails it.
func NeedRoot(t TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("requires root, and CI must be root")
	}
	t.Skipf("requires root to create network namespaces")
}
