package fleet

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startMost = 60 * time.Second
	stopMost  = 5 * time.Second
)

// program is a process that is not Pillion's, with its files and its output in a folder.
type program struct {
	command *exec.Cmd
	log     string
	exited  chan struct{}
}

func startProgram(folder string, command ...string) (*program, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	p := &program{command: exec.Command(command[0], command[1:]...), log: filepath.Join(folder, "output"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.command.Dir, p.command.Stdout, p.command.Stderr = folder, log, log
	// Ctrl-C stops this process only, which stops the others in order.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.command.Wait()
		close(p.exited)
	}()
	return p, nil
}

// accepts waits until the program accepts connections.
func (p *program) accepts(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startMost)
	defer cancel()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s (log in %s): %w", address, p.log, ctx.Err())
		case <-p.exited:
			return fmt.Errorf("wait for %s (log in %s): it ended: %v", address, p.log, p.command.ProcessState)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *program) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopMost):
		_ = p.command.Process.Kill()
		<-p.exited
	}
}
