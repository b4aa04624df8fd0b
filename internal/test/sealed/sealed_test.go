package sealed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/namespace"
)

// run is the tests of a package.
type run func() int

func (r run) Run() int { return r() }

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestHome: programs of tests read nothing of the user's, and caches remain.
func TestHome(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "GOPATH", "GOENV", "npm_config_cache", "GIT_CONFIG_GLOBAL"} {
		t.Setenv(name, "")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(within, "")
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("PILLION_SERVER", "noc.example.net")
	t.Setenv("PILLION_TEST_PROGRAMS", "bin")
	home := ""
	code := Main(run(func() int {
		home = os.Getenv("HOME")
		if home == user || !strings.HasPrefix(os.Getenv("XDG_CONFIG_HOME"), home) || os.Getenv("PILLION_SERVER") != "" {
			t.Errorf("environment %v", os.Environ())
		}
		for name, want := range map[string]string{"GOPATH": "go", "XDG_CACHE_HOME": ".cache", "npm_config_cache": ".npm"} {
			if got := os.Getenv(name); got != filepath.Join(user, want) {
				t.Errorf("%s is %s", name, got)
			}
		}
		if os.Getenv("PILLION_TEST_PROGRAMS") != "bin" {
			t.Error("variables of tests are lost")
		}
		return 3
	}))
	if _, err := os.Stat(home); code != 3 || err == nil {
		t.Errorf("code %d, home %v", code, err)
	}
}

// TestNamespaces: one that is left fails the tests and is deleted, as is a namespace of a killed process.
func TestNamespaces(t *testing.T) {
	namespace.NeedRoot(t)
	killed := exec.Command("true")
	if err := killed.Run(); err != nil {
		t.Fatal(err)
	}
	earlier, left := fmt.Sprintf("pt-%d-1", killed.Process.Pid), fmt.Sprintf("pt-%d-1000", os.Getpid())
	if err := netns.Create(earlier); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", os.Getenv("HOME")) // restores what Main sets
	t.Setenv(within, "")
	code := Main(run(func() int {
		if netns.Exists(earlier) {
			t.Errorf("%s is still there", earlier)
		}
		if err := netns.Create(left); err != nil {
			t.Error(err)
		}
		return 0
	}))
	if code != 1 || netns.Exists(left) {
		t.Errorf("code %d, %s is there: %v", code, left, netns.Exists(left))
	}
}
