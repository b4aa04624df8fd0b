package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// process identifies a process by more than its pid, which the kernel reuses.
type process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"` // field 22 of /proc/<pid>/stat, clock ticks after boot
}

// How long a process may take to end after a signal. After SIGKILL it ends as soon as the kernel has freed its memory
// and BPF programs, whatever else the machine does.
const (
	endGrace  = 3 * time.Second
	killGrace = time.Minute
)

// identify reads the start time of a living process; of one that has ended the error is
// os.ErrProcessDone.
func identify(pid int) (process, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	// The name in parentheses may contain anything, so count from its end.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const startField = 22 - 3
	if len(fields) <= startField {
		return process{}, fmt.Errorf("identify process %d: short stat", pid)
	}
	start, err := strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return process{}, fmt.Errorf("identify process %d: %w", pid, err)
	}
	if state := fields[0][0]; state == 'Z' || state == 'X' { // a zombie, and one that is being reaped
		return process{}, fmt.Errorf("identify process %d: %w", pid, os.ErrProcessDone)
	}
	return process{pid, start}, nil
}

// alive reports whether this process, not one with the same pid, is running.
func (p process) alive() bool {
	found, err := identify(p.Pid)
	return err == nil && found == p
}

// end sends SIGTERM and, if the process does not end, SIGKILL. It never signals another
// process with a reused pid: the pidfd is opened first and then verified. It is not an
// error if the process has ended.
func (p process) end() error { return p.signal(unix.SIGTERM, unix.SIGKILL) }

// kill sends SIGKILL.
func (p process) kill() error { return p.signal(unix.SIGKILL) }

// signal sends the signals, one after the other, until the process has ended.
func (p process) signal(signals ...unix.Signal) error {
	fd, err := unix.PidfdOpen(p.Pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", p.Pid, err)
	}
	defer unix.Close(fd)
	if !p.alive() {
		return nil
	}
	for _, signal := range signals {
		if err := unix.PidfdSendSignal(fd, signal, nil, 0); errors.Is(err, unix.ESRCH) {
			return nil
		} else if err != nil {
			return fmt.Errorf("signal process %d: %w", p.Pid, err)
		}
		grace := endGrace
		if signal == unix.SIGKILL {
			grace = killGrace
		}
		if ended(fd, grace) {
			return nil
		}
	}
	return fmt.Errorf("end process %d: still running after SIGKILL", p.Pid)
}

// ended waits until the process behind a pidfd has ended.
func ended(fd int, limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(0, time.Until(deadline).Milliseconds())))
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// inhabitants returns the processes in the given namespaces, which are identified by the
// link text of /proc/<pid>/ns/net, except this one.
func inhabitants(namespaces map[string]bool) []process {
	var found []process
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := identify(pid)
		if err != nil {
			continue
		}
		where, err := os.Readlink(filepath.Join("/proc", entry.Name(), "ns/net"))
		if err == nil && namespaces[where] && p.alive() {
			found = append(found, p)
		}
	}
	return found
}
