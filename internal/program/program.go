// Package program runs a program beside something that is measured: it starts it, waits until it is ready, keeps what it
// prints, interrupts it, and kills what does not end. Where it starts (a namespace, a processor, another host) is the caller's
// matter.
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ReadyTimeout is how long a program may take to print that it is ready.
	ReadyTimeout = 30 * time.Second
	// StopTimeout is how long a program may take to end after an interrupt.
	StopTimeout = 10 * time.Second
	// termTime is how long until it is terminated instead. A shell can lose an interrupt that
	// comes just before it executes its last command: dash catches SIGINT, but not SIGTERM.
	termTime = StopTimeout / 2
)

// Options say what is started and how.
type Options struct {
	// Command leads a process group of its own, so that it does not get the terminal's Ctrl-C.
	Command *exec.Cmd
	// Name of the program in errors.
	Name string
	// Start starts the command; nil is its method of that name.
	Start func() error
	// Ready is a text that it prints once it works, to either output.
	Ready string
	// ByInput: it is not a signal that interrupts the program but the end of its standard input.
	ByInput bool
}

// Program is one that was started.
type Program struct {
	// Output and Errors are what it has printed so far.
	Output, Errors *Text
	name           string
	command        *exec.Cmd
	ended          chan struct{} // closed when it has exited; then exit is set
	exit           error
	input          io.Closer // nil if a signal interrupts it
}

// Start starts a program.
func Start(o Options) (*Program, error) {
	p := &Program{
		name: o.Name, command: o.Command, ended: make(chan struct{}), Output: newText(mostText, o.Ready), Errors: newText(mostText, o.Ready),
	}
	if p.command.SysProcAttr == nil {
		p.command.SysProcAttr = &syscall.SysProcAttr{}
	}
	p.command.SysProcAttr.Setpgid = true
	p.command.Stdout, p.command.Stderr = p.Output, p.Errors
	p.command.WaitDelay = StopTimeout
	if o.ByInput {
		var err error
		if p.input, err = p.command.StdinPipe(); err != nil {
			return nil, fmt.Errorf("start %s: %w", o.Name, err)
		}
	}
	start := o.Start
	if start == nil {
		start = p.command.Start
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Name, err)
	}
	go func() {
		p.exit = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// String is the program's name.
func (p *Program) String() string { return p.name }

// Pid is the process ID of the leader of its process group.
func (p *Program) Pid() int { return p.command.Process.Pid }

// Ended is closed once the program has exited.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// HasEnded reports whether the program has exited.
func (p *Program) HasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Ready waits until the program has printed that it is.
func (p *Program) Ready(ctx context.Context) error {
	limit := time.NewTimer(ReadyTimeout)
	defer limit.Stop()
	select {
	case <-p.Output.seen:
		return nil
	case <-p.Errors.seen:
		return nil
	case <-p.ended:
		return fmt.Errorf("start %s: ended before it was ready: %w", p.name, p.Failure())
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return fmt.Errorf("start %s: not ready within %s: %s", p.name, ReadyTimeout, p.Errors.Tail())
	}
}

// Exit is how a program that has ended did so.
func (p *Program) Exit() error {
	<-p.ended
	return p.exit
}

// Failure describes an exit that was not expected, with the last words of the program.
func (p *Program) Failure() error {
	exit := p.Exit()
	if exit == nil {
		exit = errors.New("exit status 0")
	}
	if said := p.Errors.Tail(); said != "" {
		return fmt.Errorf("%w: %s", exit, said)
	}
	return exit
}

// Wait waits for the end of the program; when ctx ends, it is stopped.
func (p *Program) Wait(ctx context.Context) error {
	select {
	case <-p.ended:
		p.kill() // what it left in the background
		return p.exit
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.Stop())
	}
}

// Stop interrupts the program, if it still runs, and kills it and what is left of its group if it does not end.
func (p *Program) Stop() error {
	defer p.kill()
	if p.HasEnded() {
		return nil
	}
	if p.input != nil {
		_ = p.input.Close()
	} else {
		_ = syscall.Kill(-p.Pid(), syscall.SIGINT) // it may have ended meanwhile
	}
	if p.endsWithin(termTime) {
		return nil
	}
	_ = syscall.Kill(-p.Pid(), syscall.SIGTERM)
	if p.endsWithin(StopTimeout - termTime) {
		return nil
	}
	p.kill()
	<-p.ended
	return fmt.Errorf("stop %s: still there %s after SIGINT, killed", p.name, StopTimeout)
}

// endsWithin waits for the end of the program, up to a limit.
func (p *Program) endsWithin(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// kill ends what is left of the process group.
func (p *Program) kill() { _ = syscall.Kill(-p.Pid(), syscall.SIGKILL) }

// ProcessorTime is the processor time of all threads of the program so far, or in all if it has ended.
func (p *Program) ProcessorTime() time.Duration {
	if p.HasEnded() {
		return p.command.ProcessState.UserTime() + p.command.ProcessState.SystemTime()
	}
	const clockSched = 2 // CPUCLOCK_SCHED of a process, as clock_getcpuclockid makes it
	var now unix.Timespec
	if unix.ClockGettime(int32(^p.Pid()<<3|clockSched), &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}
