package runner

import (
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
)

const (
	// readyTimeout is how long a command may take to print that it is ready.
	readyTimeout = 30 * time.Second
	// stopTimeout is how long a command may take to end after an interrupt.
	stopTimeout = 10 * time.Second
	// mostOutput bounds what is read of a command's output.
	mostOutput = 64 << 20
	tailSize   = 2048
)

// process is a command that runs.
type process struct {
	text    string
	command *exec.Cmd
	ended   chan struct{} // closed when it has exited; then the fields below are set
	exit    error
	output  *output
	errors  *output
	forget  func()
	// input is that of ssh; its end interrupts the command on the other side.
	input io.Closer
}

// output keeps what a command prints.
type output struct {
	mutex sync.Mutex
	kept  bytes.Buffer
	limit int
	over  bool
	ready string        // a text to wait for
	seen  chan struct{} // closed when it was printed
}

func newOutput(limit int, ready string) *output {
	return &output{limit: limit, ready: ready, seen: make(chan struct{})}
}

// Write keeps the beginning of an output with a text to wait for, or of a result, up to the
// limit.
func (o *output) Write(text []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	begin := max(0, o.kept.Len()-len(o.ready))
	if room := o.limit - o.kept.Len(); len(text) > room {
		o.over = true
		o.kept.Write(text[:room])
	} else {
		o.kept.Write(text)
	}
	if o.ready != "" && bytes.Contains(o.kept.Bytes()[begin:], []byte(o.ready)) {
		o.ready = ""
		close(o.seen)
	}
	return len(text), nil
}

func (o *output) bytes() []byte {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return bytes.Clone(o.kept.Bytes())
}

// tail is the last line and what fits before it, for messages.
func (o *output) tail() string {
	text := strings.TrimSpace(string(o.bytes()))
	if len(text) > tailSize {
		text = "…" + text[len(text)-tailSize:]
	}
	return strings.Join(strings.Fields(text), " ")
}

// begin starts a shell command.
func (r *runner) begin(p place, text, ready string) (*process, error) {
	command, start := p.shell(text, r.variables)
	command.Env = append(command.Environ(), r.variables...)
	command.Env = append(command.Env, resultsVariable+"="+r.results, "PILLION_AGENT="+r.Agent)
	proc := &process{text: text, command: command, ended: make(chan struct{}),
		output: newOutput(mostOutput, ready), errors: newOutput(mostOutput, ready)}
	command.Stdout, command.Stderr = proc.output, proc.errors
	command.WaitDelay = stopTimeout
	if p.ssh != "" {
		var err error
		if proc.input, err = command.StdinPipe(); err != nil {
			return nil, fmt.Errorf("start %q: %w", text, err)
		}
	}
	if err := start(); err != nil {
		return nil, fmt.Errorf("start %q: %w", text, err)
	}
	go func() {
		proc.exit = command.Wait()
		close(proc.ended)
	}()
	var err error
	if proc.forget, err = r.left.add(command.Process.Pid); err != nil {
		return nil, errors.Join(err, proc.stop())
	}
	return proc, nil
}

// isReady waits until the command has printed its text.
func (p *process) isReady(ctx context.Context) error {
	limit := time.NewTimer(readyTimeout)
	defer limit.Stop()
	select {
	case <-p.output.seen:
		return nil
	case <-p.errors.seen:
		return nil
	case <-p.ended:
		return fmt.Errorf("start %q: ended before it was ready: %w", p.text, p.failure())
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return fmt.Errorf("start %q: not ready within %s: %s", p.text, readyTimeout, p.errors.tail())
	}
}

// failure describes an unexpected exit.
func (p *process) failure() error {
	exit := p.exit
	if exit == nil {
		exit = errors.New("exit status 0")
	}
	if said := p.errors.tail(); said != "" {
		return fmt.Errorf("%w: %s", exit, said)
	}
	return exit
}

// wait waits for the end of the command; when ctx ends, it is stopped.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.ended:
		p.kill() // what it left in the background
		p.forget()
		return p.exit
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.stop())
	}
}

// stop interrupts the command, and kills it if it does not end.
func (p *process) stop() error {
	defer p.forget()
	defer p.kill()
	select {
	case <-p.ended:
		return nil
	default:
	}
	if p.input != nil {
		_ = p.input.Close()
	} else {
		_ = syscall.Kill(-p.command.Process.Pid, syscall.SIGINT) // it may have ended meanwhile
	}
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	select {
	case <-p.ended:
		return nil
	case <-limit.C:
	}
	p.kill()
	<-p.ended
	return fmt.Errorf("stop %q: still there %s after SIGINT, killed", p.text, stopTimeout)
}

// kill ends what is left of the command's process group.
func (p *process) kill() { _ = syscall.Kill(-p.command.Process.Pid, syscall.SIGKILL) }

// lastObject is the last JSON object of an output with one object per line, or nil. If it
// has a member summary, that is returned.
func lastObject(text []byte) map[string]any {
	lines := bytes.Split(text, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		var object map[string]any
		if line := bytes.TrimSpace(lines[i]); len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &object) == nil {
			if summary, ok := object["summary"].(map[string]any); ok {
				return summary
			}
			return object
		}
	}
	return nil
}

// cpuSeconds is the processor time of a command that has ended, on this machine.
func (p *process) cpuSeconds() float64 {
	state := p.command.ProcessState
	return (state.UserTime() + state.SystemTime()).Seconds()
}
