// Package confine starts and seals the part of the agent that speaks to the network: as a
// user of its own, without capabilities, with system calls and writable folders limited to
// what it needs. It knows nothing of what that part does.
//
// The privileges are taken away in two steps. Start, in the privileged process, changes what
// a new process inherits: user, capabilities, Landlock rules, session, working directory.
// Seal, which the new process calls before it reads anything from outside, adds a seccomp
// filter, and fails if the process still has a privilege.
package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options describe the unprivileged process.
type Options struct {
	User User
	// Folder is its working directory, and the only place that it can write to where the
	// kernel has Landlock. It need not be reachable by its path for the user.
	Folder string
	// Ports are the TCP ports that it can bind, where the kernel has Landlock 4 (6.7).
	Ports []uint16
}

// Process is a started unprivileged process.
type Process struct {
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// Start starts the command with what the options leave it. It is killed when this process
// ends.
//
// Landlock rules and the bounding set belong to threads, and a new process inherits them from
// the thread that starts it. So a thread is given up for that: it waits until the process
// has ended, since the kernel takes its end for the end of the parent.
func Start(command *exec.Cmd, options Options) (*Process, error) {
	p := &Process{command: command, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := options.restrict(command)
		if err == nil {
			err = command.Start()
		}
		started <- err
		if err == nil {
			p.err = command.Wait()
			close(p.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start unprivileged process: %w", err)
	}
	return p, nil
}

// restrict restricts the calling thread, and what the command is started with.
func (o Options) restrict(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if o.User.UID != os.Geteuid() {
		if err := checkUserChange(); err != nil {
			return err
		}
	}
	// The folder is found with the rights of this process: the user may not be able to reach it.
	folder, err := unix.Open(o.Folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(folder)
		err = o.enter(folder)
	}
	if err != nil {
		return fmt.Errorf("enter %s: %w", o.Folder, err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := landlock(folder, o.Ports); err != nil && !errors.Is(err, errNoLandlock) {
		return err
	}
	if err := dropBounding(); err != nil {
		return err
	}
	if o.User.UID == os.Geteuid() {
		return dropAll() // there is no change of user that would do it
	}
	command.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.User.UID), Gid: uint32(o.User.GID)}
	return nil
}

// enter changes the working directory of the calling thread alone, with the rights of the
// user: root without capabilities may not.
func (o Options) enter(folder int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if o.User.UID == os.Geteuid() {
		return unix.Fchdir(folder)
	}
	if err := unix.Setfsuid(o.User.UID); err != nil {
		return err
	}
	return errors.Join(unix.Fchdir(folder), unix.Setfsuid(os.Geteuid()))
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Err is how it ended, as of exec.Cmd.Wait.
func (p *Process) Err() error {
	<-p.ended
	return p.err
}

// Kill ends the process at once.
func (p *Process) Kill() error {
	err := p.command.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Pid of the process.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Seal takes away what the calling process could use of the kernel beyond what the agent
// needs, in all its threads. It fails if the process has capabilities.
func Seal() error {
	if err := checkUnprivileged(); err != nil {
		return err
	}
	// Others of the same user may neither trace the process nor read its memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("limit system calls: %w", err)
	}
	return nil
}
