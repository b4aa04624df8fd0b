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

// startRuns starts the commands of the spec in their hosts and leaves them alone:
// one that ends, or cannot start, has said so in its log. As all that runs inside
// the lab, down ends them.
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

// start starts a process that outlives this one in a host, or on this machine if that
// is "". Its output goes to the end of a log.
func (b *builder) start(host, log string, command *exec.Cmd) error {
	output, err := os.OpenFile(b.state.path(log+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer output.Close()
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &unix.SysProcAttr{Setsid: true} // Ctrl-C is for us
	command.Dir = "/"
	if host == "" {
		err = command.Start()
	} else {
		err = netns.Do(namespace(b.spec.Name, host), command.Start)
	}
	if err == nil {
		go command.Wait() // leave no zombie, whenever it ends
	}
	return err
}

// startRecorded starts a process and records in the state folder which one it is.
func (b *builder) startRecorded(host, name string, command *exec.Cmd) error {
	if err := b.start(host, name, command); err != nil {
		return err
	}
	p, err := identify(command.Process.Pid)
	if err != nil {
		return err
	}
	return b.state.save(name+".pid", p)
}

// process is a recorded one, and whether it still runs.
func (s state) process(name string) (p process, alive bool) {
	err := s.load(name+".pid", &p)
	return p, err == nil && p.alive()
}

// startHelper runs a lab command of the agent's binary outside all hosts, and returns
// once it is ready. The process does nothing until its pid is recorded: if we end before
// that, it reads the end of its input and ends too.
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
