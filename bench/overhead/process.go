package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

const (
	readyTimeout = 20 * time.Second
	stopTimeout  = 15 * time.Second
)

// process is a program that runs in a namespace during the measurement.
type process struct {
	name    string
	command *exec.Cmd
	isReady func(line string) bool
	once    sync.Once
	ready   chan struct{} // closed at the line that reports readiness
	ended   chan struct{} // closed when the process has exited; then the fields below are set
	exit    error
	summary json.RawMessage
	stderr  tail
}

// startProcess starts a program in the namespace and returns once it has written a line
// that isReady accepts, to standard output or standard error. It is killed if this process
// dies, and does not receive its Ctrl-C, so that processes stop in order.
func startProcess(ctx context.Context, namespace string, isReady func(line string) bool, name string, args ...string) (*process, error) {
	p := &process{name: name, command: exec.Command(name, args...), isReady: isReady,
		ready: make(chan struct{}), ended: make(chan struct{})}
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	stdout, outErr := p.command.StdoutPipe()
	stderr, errErr := p.command.StderrPipe()
	err := errors.Join(outErr, errErr)
	if err == nil {
		err = netns.Do(namespace, p.command.Start)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.read(stdout, stderr)

	limit := time.NewTimer(readyTimeout)
	defer limit.Stop()
	select {
	case <-p.ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("start %s: ended before it was ready: %w", p, p.failure())
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("start %s: not ready within %s", p, readyTimeout)
	}
	_, stopErr := p.stop()
	return nil, errors.Join(err, stopErr)
}

// String names the process by its command line.
func (p *process) String() string { return strings.Join(p.command.Args, " ") }

// read reads both outputs until their end, then reaps the process.
func (p *process) read(stdout, stderr io.Reader) {
	var both sync.WaitGroup
	both.Go(func() {
		p.follow(stdout, func(line string) {
			if summary := jsonKey(line, "summary"); summary != nil {
				p.summary = summary
			}
		})
	})
	both.Go(func() { p.follow(stderr, p.stderr.add) })
	both.Wait()
	p.exit = p.command.Wait()
	close(p.ended)
}

func (p *process) follow(output io.Reader, see func(line string)) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadString('\n')
		see(line)
		if p.isReady(line) {
			p.once.Do(func() { close(p.ready) })
		}
		if err != nil {
			return
		}
	}
}

// cpuTime is that of all threads of the process so far; 0 if it has ended, or there is none.
func (p *process) cpuTime() time.Duration {
	if p == nil {
		return 0
	}
	const clockSched = 2 // CPUCLOCK_SCHED of a process, as clock_getcpuclockid makes it
	var now unix.Timespec
	if unix.ClockGettime(int32(^p.command.Process.Pid<<3|clockSched), &now) != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// stop interrupts the process, if there is one, and returns the summary that it prints, if any.
func (p *process) stop() (json.RawMessage, error) {
	if p == nil {
		return nil, nil
	}
	select {
	case <-p.ended:
		return p.summary, fmt.Errorf("run %s: ended by itself: %w", p, p.failure())
	default:
	}
	if err := p.command.Process.Signal(syscall.SIGINT); err != nil {
		return nil, fmt.Errorf("stop %s: %w", p, err)
	}
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-p.ended:
		return p.summary, nil
	case <-limit.C:
		_ = p.command.Process.Kill() // it may have exited meanwhile
		<-p.ended
		return p.summary, fmt.Errorf("stop %s: still there %s after SIGINT, killed", p, stopTimeout)
	}
}

// failure describes an unexpected exit.
func (p *process) failure() error {
	exit := p.exit
	if exit == nil {
		exit = errors.New("exit status 0")
	}
	if said := strings.TrimSpace(p.stderr.String()); said != "" {
		return fmt.Errorf("%w: %s", exit, said)
	}
	return exit
}

// jsonKey returns one member of a line that is a JSON object, or nil.
func jsonKey(line, key string) json.RawMessage {
	if !strings.Contains(line, `"`+key+`"`) {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(line), &object) != nil {
		return nil
	}
	return object[key]
}

// tail keeps the last kilobytes of text.
type tail struct {
	mutex sync.Mutex
	kept  bytes.Buffer
}

const tailSize = 2048

func (t *tail) add(text string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.kept.WriteString(text)
	if extra := t.kept.Len() - tailSize; extra > 0 {
		t.kept.Next(extra)
	}
}

func (t *tail) String() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.kept.String()
}
