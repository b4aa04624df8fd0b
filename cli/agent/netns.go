package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/lab"
)

// errNetns is an unknown network namespace.
var errNetns = errors.New("no such network namespace")

// OpenNetns opens a namespace. A name takes precedence over a process ID, and both over
// a host of a lab.
func OpenNetns(name, labName string) (*os.File, error) {
	if labName != "" {
		return openHost(name, labName)
	}
	path := netns.Path(name)
	if filepath.Base(name) != name {
		path = name
	} else if !netns.Exists(name) {
		if _, err := strconv.ParseUint(name, 10, 31); err != nil {
			return openHost(name, "")
		}
		path = "/proc/" + name + "/ns/net"
	}
	return openFile(name, path)
}

func openHost(name, labName string) (*os.File, error) {
	up, err := lab.Open(labName)
	if labName == "" && errors.Is(err, lab.ErrNoLab) {
		return nil, fmt.Errorf("open namespace %q: %w, and no lab is running", name, errNetns)
	}
	if err != nil {
		return nil, fmt.Errorf("open namespace %q: %w", name, err)
	}
	if _, known := up.Spec.Hosts[name]; !known {
		return nil, fmt.Errorf("open namespace %q: %w, and lab %s has no such host", name, errNetns, up.Spec.Name)
	}
	return openFile(name, netns.Path(up.Namespace(name)))
}

func openFile(name, path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open namespace %q: %w", name, errNetns)
	}
	if err != nil {
		return nil, fmt.Errorf("open namespace %q: %w", name, err)
	}
	var kind unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &kind); err != nil || kind.Type != unix.NSFS_MAGIC {
		file.Close()
		return nil, fmt.Errorf("open namespace %q: %w: %s is not a namespace", name, errNetns, path)
	}
	return file, nil
}
