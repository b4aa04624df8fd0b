package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pillion.dev/internal/netns"
)

// restartPause is what a service manager waits before it starts a program again.
const restartPause = time.Second

// program is a process in a namespace that is started again whenever it ends, as the
// systemd units do.
type program struct {
	name, namespace string
	// command returns the program and its arguments; run counts its starts.
	command func(run int) []string
	// told receives the lines of its standard output, and nil when it has ended; nil: they
	// go to the log.
	told func(run int, line *string)
	logs string

	mu      sync.Mutex
	process *os.Process
	clocks  map[int]*clock // those that were stepped, by process
	input   io.Closer
	held    bool          // not started again
	ended   chan struct{} // of the supervision
}

func (p *program) start(ctx context.Context) {
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		for run := 1; ctx.Err() == nil; run++ {
			if err := p.runOnce(run); err != nil {
				p.say(fmt.Sprintf("== run %d ended: %v", run, err))
			}
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(restartPause):
				}
				p.mu.Lock()
				held := p.held
				p.mu.Unlock()
				if !held {
					break
				}
			}
		}
	}()
}

func (p *program) say(line string) {
	file, err := os.OpenFile(filepath.Join(p.logs, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

// runOnce starts the program and waits until it ends.
func (p *program) runOnce(run int) error {
	log, err := os.OpenFile(filepath.Join(p.logs, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	words := p.command(run)
	command := exec.Command(words[0], words[1:]...)
	command.Stdout, command.Stderr = log, log
	var out io.ReadCloser
	if p.told != nil {
		command.Stdout = nil
		if out, err = command.StdoutPipe(); err != nil {
			return err
		}
	}
	in, err := command.StdinPipe()
	if err != nil {
		return err
	}
	if err := netns.Do(p.namespace, command.Start); err != nil {
		return err
	}
	p.mu.Lock()
	p.process, p.input, p.clocks = command.Process, in, map[int]*clock{}
	if p.held {
		err = command.Process.Kill()
	}
	p.mu.Unlock()
	if out != nil {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			text := lines.Text()
			p.told(run, &text)
		}
		p.told(run, nil)
	}
	err = errors.Join(err, command.Wait())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process = nil
	for _, c := range p.clocks {
		err = errors.Join(err, c.Close())
	}
	return err
}

// processes are the program's own and those it has started, or none if it does not run. The
// caller holds the lock.
func (p *program) processes() []int {
	if p.process == nil {
		return nil
	}
	all := []int{p.process.Pid}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", p.process.Pid)) // the pattern is valid
	for _, thread := range threads {
		children, _ := os.ReadFile(thread) // none if it has just ended
		for _, word := range strings.Fields(string(children)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

// kill ends one of its processes as a crash does; false if it does not run.
func (p *program) kill(draws *rand.Rand) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.processes()
	return len(all) > 0 && syscall.Kill(all[draws.IntN(len(all))], syscall.SIGKILL) == nil
}

// hold stops the program and keeps it stopped until it is released.
func (p *program) hold(hold bool) {
	p.mu.Lock()
	p.held = hold
	if hold && p.process != nil {
		_ = p.process.Signal(syscall.SIGKILL) // or it has ended
	}
	p.mu.Unlock()
	for hold && p.running() {
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *program) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil
}

// step sets how far the clocks of its processes are ahead. A process that is started later
// has the machine's.
func (p *program) step(ahead time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pid := range p.processes() {
		c := p.clocks[pid]
		if c == nil && ahead == 0 {
			continue
		}
		var err error
		if c == nil {
			if c, err = replaceClock(pid); err != nil {
				return fmt.Errorf("replace the clock of %s: %w", p.name, err)
			}
			p.clocks[pid] = c
		}
		if err = c.step(ahead); err != nil {
			return fmt.Errorf("step the clock of %s: %w", p.name, err)
		}
	}
	return nil
}

// finish ends its input.
func (p *program) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
	if p.input != nil {
		_ = p.input.Close() // or it has ended
	}
}
