//go:build long

package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// What the guest writes to its console besides the output of the suites.
const (
	kernelLine = "== kernel "
	suiteLine  = "== suite "
	failedLine = "== failed "
	doneLine   = "== done"
)

const (
	suiteFile    = "/suites"
	moduleFolder = "/modules"
)

// suite is some tests of a package, to be run in the guest.
type suite struct {
	Package string
	// Tests by name, those of a table as name/row. Each has to pass.
	Tests []string
}

// pattern returns the -test.run pattern of these tests.
func (s suite) pattern() string {
	var patterns []string
	for _, test := range s.Tests {
		patterns = append(patterns, "^"+strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^")+"$")
	}
	return strings.Join(patterns, "|")
}

// folder of the suite in the guest.
func (s suite) folder() string { return "/pillion/" + s.Package }

// guest is the first and only program of the booted machine: this test's own binary.
func guest() {
	if err := runSuites(); err != nil {
		fmt.Println(failedLine+"guest:", err)
	}
	fmt.Println(doneLine)
	unix.Sync()
	unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // which ends QEMU
}

func runSuites() error {
	if err := mount(); err != nil {
		return err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	fmt.Println(kernelLine + unix.ByteSliceToString(name.Release[:]))
	if err := loadModules(); err != nil {
		return err
	}
	text, err := os.ReadFile(suiteFile)
	if err != nil {
		return err
	}
	var suites []suite
	if err := json.Unmarshal(text, &suites); err != nil {
		return err
	}
	for _, s := range suites {
		fmt.Println(suiteLine + s.Package)
		c := exec.Command(s.folder()+"/run", "-test.v", "-test.run="+s.pattern())
		c.Dir = s.folder()
		// In CI a skip fails. The lab does not build the programs that it runs.
		c.Env = []string{"PATH=/usr/sbin", "HOME=/", "CI=true", "PILLION_TEST_PROGRAMS=/usr/sbin"}
		c.Stdout, c.Stderr = os.Stdout, os.Stdout
		if err := c.Run(); err != nil {
			fmt.Printf("%s%s: %v\n", failedLine, s.Package, err)
		}
	}
	return nil
}

func mount() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"},
		{"tmpfs", "/run"}, {"tmpfs", "/tmp"}, {"bpf", "/sys/fs/bpf"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	return nil
}

// loadModules loads them in the order of their files' names.
func loadModules() error {
	files, err := os.ReadDir(moduleFolder)
	if err != nil {
		return err
	}
	for _, f := range files {
		code, err := os.ReadFile(filepath.Join(moduleFolder, f.Name()))
		if err != nil {
			return err
		}
		_, name, _ := strings.Cut(f.Name(), "-")
		if err := unix.InitModule(code, ""); err != nil {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	return nil
}
