// Package sealed separates tests from their user and from each other: their programs read no configuration of the
// user, and no network namespace outlives them. What several runs share, the caches, stays.
package sealed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pillion.dev/internal/netns"
)

// Main runs the tests of a package, m.Run of testing.M, and returns the exit code, which is not 0 either if they leave
// a network namespace. It is for TestMain. It deletes the namespaces of earlier runs that were killed.
func Main(m interface{ Run() int }) (code int) {
	if os.Getenv(within) != "" { // tests that tests start, and may kill
		return m.Run()
	}
	home, err := os.MkdirTemp("", "pillion-home-")
	if err == nil {
		defer os.RemoveAll(home)
		err = seal(home)
	}
	if err == nil && os.Geteuid() == 0 {
		err = netns.DeleteStale("pt-")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "seal tests:", err)
		return 1
	}
	code = m.Run()
	left, err := sweep()
	if len(left) > 0 || err != nil {
		fmt.Fprintf(os.Stderr, "the tests left the namespaces %s (%v)\n", strings.Join(left, ", "), err)
		return max(code, 1)
	}
	return code
}

// within is set in the environment of sealed tests.
const within = "PILLION_TEST_SEALED"

// seal makes a folder the home of this process and of those that it starts.
func seal(home string) error {
	kept := map[string]string{within: home}
	if user, err := os.UserHomeDir(); err == nil {
		kept["GOPATH"], kept["npm_config_cache"] = filepath.Join(user, "go"), filepath.Join(user, ".npm")
		kept["GIT_CONFIG_GLOBAL"] = filepath.Join(user, ".gitconfig") // without it git refuses the tree of another user
	}
	if cache, err := os.UserCacheDir(); err == nil {
		kept["XDG_CACHE_HOME"] = cache // of Go, and of the kernels that .ci/kernel fetches
	}
	if config, err := os.UserConfigDir(); err == nil {
		kept["GOENV"] = filepath.Join(config, "go", "env")
	}
	for name, value := range kept {
		if os.Getenv(name) == "" {
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
	}
	for name, folder := range map[string]string{"HOME": "", "XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": "data", "XDG_STATE_HOME": "state"} {
		if err := os.Setenv(name, filepath.Join(home, folder)); err != nil {
			return err
		}
	}
	for _, name := range strings.Fields("SERVER TOKEN TOKEN_FILE CA CA_FINGERPRINT CONFIG DATA JOIN_TOKEN TIMEOUT OML_TOKEN_FILE") {
		if err := os.Unsetenv("PILLION_" + name); err != nil {
			return err
		}
	}
	return nil
}

// sweep deletes the namespaces of tests in this process, and returns their names.
func sweep() (deleted []string, err error) {
	names, err := os.ReadDir(filepath.Dir(netns.Path("any")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range names {
		if !strings.HasPrefix(entry.Name(), fmt.Sprintf("pt-%d-", os.Getpid())) {
			continue
		}
		deleted = append(deleted, entry.Name())
		if failed := netns.Delete(entry.Name()); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return deleted, err
}
