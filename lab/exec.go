package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	vishnetns "github.com/vishvananda/netns"

	"pillion.dev/internal/netns"
)

// Do runs f in a host's namespace; see netns.Do.
func (l *Lab) Do(host string, f func() error) error {
	if err := l.check(host); err != nil {
		return err
	}
	return netns.Do(l.Namespace(host), f)
}

// Namespace is the name of a host's network namespace.
func (l *Lab) Namespace(host string) string { return namespace(l.Spec.Name, host) }

// Start starts a command on a host. Only the network namespace is the host's: files, /sys
// and BPF pins are the machine's.
func (l *Lab) Start(host string, command *exec.Cmd) error {
	return l.Do(host, command.Start)
}

// Exec runs a command on a host and returns its standard output and standard error.
func (l *Lab) Exec(ctx context.Context, host string, command ...string) ([]byte, error) {
	prepared := exec.CommandContext(ctx, command[0], command[1:]...)
	output := new(bytes.Buffer)
	prepared.Stdout, prepared.Stderr = output, output
	if err := l.Start(host, prepared); err != nil {
		return nil, fmt.Errorf("run %s in %s: %w", command[0], host, err)
	}
	if err := prepared.Wait(); err != nil {
		return output.Bytes(), fmt.Errorf("run %s in %s: %w", command[0], host, err)
	}
	return output.Bytes(), nil
}

// Replace replaces the running program by a command on a host (execve). It returns only
// on an error.
func (l *Lab) Replace(host string, command ...string) error {
	if err := l.check(host); err != nil {
		return err
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("run %s in %s: %w", command[0], host, errors.Unwrap(err))
	}
	handle, err := vishnetns.GetFromPath(netns.Path(l.Namespace(host)))
	if err != nil {
		return fmt.Errorf("open namespace of %s: %w", host, err)
	}
	// The thread is never unlocked: it becomes the command or ends.
	runtime.LockOSThread()
	if err := vishnetns.Set(handle); err != nil {
		return fmt.Errorf("enter namespace of %s: %w", host, err)
	}
	return fmt.Errorf("run %s in %s: %w", command[0], host, syscall.Exec(path, command, os.Environ()))
}

func (l *Lab) check(host string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("enter host %s of lab %s: %w", host, l.Spec.Name, ErrNotRoot)
	}
	if _, ok := l.Spec.Hosts[host]; !ok {
		return fmt.Errorf("enter host %s of lab %s: %w", host, l.Spec.Name, ErrNoHost)
	}
	return nil
}
