package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// startRuns starts the commands of the spec on their hosts. They are not monitored: their
// output and errors are in their logs. Down ends them.
func (b *builder) startRuns() error {
	for _, host := range slices.Sorted(maps.Keys(b.spec.Hosts)) {
		for _, line := range b.spec.Hosts[host].Run {
			if err := b.start(host, "run-"+host, exec.Command("/bin/sh", "-c", line)); err != nil {
				return fmt.Errorf("run %q in host %s: %w", line, host, err)
			}
		}
	}
	return nil
}

// start starts a process that outlives this one, on a host or, if that is "", on this
// machine. Its output is appended to a log.
func (b *builder) start(host, log string, command *exec.Cmd) error {
	output, err := os.OpenFile(b.state.path(log+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer output.Close()
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &unix.SysProcAttr{Setsid: true} // not interrupted by Ctrl-C
	command.Dir = "/"
	if host == "" {
		err = command.Start()
	} else {
		err = netns.Do(namespace(b.spec.Name, host), command.Start)
	}
	if err == nil {
		go command.Wait() // reap it
	}
	return err
}

// startRecorded starts a process and records its identity in the state folder.
func (b *builder) startRecorded(host, name string, command *exec.Cmd) error {
	if err := b.start(host, name, command); err != nil {
		return err
	}
	p, err := identify(command.Process.Pid)
	if errors.Is(err, os.ErrProcessDone) {
		p = process{Pid: command.Process.Pid} // it has ended already; its log says why
	} else if err != nil {
		return err
	}
	return b.state.save(name+".pid", p)
}

// process returns a recorded process and whether it is running.
func (s state) process(name string) (p process, alive bool) {
	err := s.load(name+".pid", &p)
	return p, err == nil && p.alive()
}

// startHelper runs a lab command of the agent's binary outside all hosts, and returns
// once it is ready. The process waits until its pid is recorded; if this process ends
// before, it reads the end of its input and ends too.
func (b *builder) startHelper(ctx context.Context, name string, files []*os.File, arguments ...string) error {
	command := exec.Command(b.agent, append([]string{"lab"}, arguments...)...)
	command.ExtraFiles = files
	input, err := command.StdinPipe()
	if err == nil {
		defer input.Close()
		err = b.startRecorded("", name, command)
	}
	if err == nil {
		_, err = fmt.Fprintln(input, "go")
	}
	if err != nil {
		return fmt.Errorf("start %s of %s: %w", arguments[0], name, err)
	}
	return b.isReady(ctx, name)
}

// awaitGo waits for what startHelper writes.
func awaitGo() error {
	word, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(word) != "go" {
		return errors.New("wait for start: standard input does not say go; only lab up starts this")
	}
	return nil
}
