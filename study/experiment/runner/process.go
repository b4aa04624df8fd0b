package runner

import (
	"context"
	"errors"
	"strconv"

	"pillion.dev/internal/program"
)

const (
	// readyTimeout is how long a command may take to print that it is ready, or a short one to end.
	readyTimeout = program.ReadyTimeout
	// stopTimeout is how long a command may take to end after an interrupt.
	stopTimeout = program.StopTimeout
)

// process is a command that runs.
type process struct {
	*program.Program
	// remote: it runs on another host, and what is known of it here is ssh.
	remote bool
	forget func()
}

// begin starts a shell command.
func (r *runner) begin(p place, text, ready string) (*process, error) {
	command, start := p.shell(text, r.variables)
	command.Env = append(command.Environ(), r.variables...)
	command.Env = append(command.Env, resultsVariable+"="+r.results, "PILLION_AGENT="+r.Agent)
	// The end of its input interrupts the command at the other side of ssh.
	started, err := program.Start(program.Options{Command: command, Name: strconv.Quote(text), Start: start, Ready: ready, ByInput: p.ssh != ""})
	if err != nil {
		return nil, err
	}
	proc := &process{Program: started, remote: p.ssh != ""}
	if proc.forget, err = r.left.add(proc.Pid()); err != nil {
		return nil, errors.Join(err, started.Stop())
	}
	return proc, nil
}

// wait waits for the end of the command; when ctx ends, it is stopped.
func (p *process) wait(ctx context.Context) error {
	defer p.forget()
	return p.Wait(ctx)
}

// stop interrupts the command, and kills it if it does not end.
func (p *process) stop() error {
	defer p.forget()
	return p.Stop()
}
