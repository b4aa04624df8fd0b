package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/program"
)

// process is a program that runs in a namespace during the measurement.
type process struct{ *program.Program }

// startProcess starts a program in the namespace and returns once it has printed that it is ready. It is interrupted if this
// process dies.
func startProcess(ctx context.Context, namespace, ready, name string, args ...string) (*process, error) {
	command := exec.Command(name, args...)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	p, err := program.Start(program.Options{
		Command: command, Name: strings.Join(command.Args, " "), Ready: ready,
		Start: func() error { return netns.Do(namespace, command.Start) },
	})
	if err != nil {
		return nil, err
	}
	if err := p.Ready(ctx); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return &process{p}, nil
}

// cpuTime is the CPU time of all threads of the process so far; 0 if it has ended, or there is none.
func (p *process) cpuTime() time.Duration {
	if p == nil || p.HasEnded() {
		return 0
	}
	return p.ProcessorTime()
}

// stop interrupts the process, if there is one, and returns the summary that it prints, if any.
func (p *process) stop() (summary map[string]any, err error) {
	if p == nil {
		return nil, nil
	}
	if p.HasEnded() {
		return p.Output.LastObject(), errors.Join(fmt.Errorf("run %s: ended by itself: %w", p, p.Failure()), p.Stop())
	}
	err = p.Stop()
	return p.Output.LastObject(), err
}
