// Package clickhousetest starts private ClickHouse servers for tests: one, or a cluster of
// shards and replicas with its coordination service, on the loopback address and with all
// files in a temporary folder. Processes can be killed and started again.
//
// It runs the clickhouse-server and ZooKeeper of Debian's packages.
package clickhousetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startMost is how long a process may take until it accepts connections.
const startMost = 60 * time.Second

// Process is a server that can be killed and started again.
type Process struct {
	// Address on which it accepts connections.
	Address string

	t       testing.TB
	folder  string
	command []string
	// ready asks by a new connection whether the process serves; nil: it does once it accepts one.
	ready func(net.Conn) error

	mutex   sync.Mutex
	running *exec.Cmd
	exited  chan struct{}
}

// launch begins to start the process, which Ready waits for.
func (p *Process) launch() {
	p.t.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	log, err := os.OpenFile(filepath.Join(p.folder, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command(p.command[0], p.command[1:]...)
	c.Dir, c.Stdout, c.Stderr = p.folder, log, log
	// Processes end with the test, even if it is killed.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(exited)
	}()
	p.running, p.exited = c, exited
}

// Ready waits until the process serves.
func (p *Process) Ready() {
	p.t.Helper()
	for end := time.Now().Add(startMost); ; time.Sleep(20 * time.Millisecond) {
		if p.serves() {
			return
		}
		select {
		case <-p.exited:
			p.t.Fatalf("%s exited: %s", p.command[0], p.output())
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s does not accept connections on %s: %s", p.command[0], p.Address, p.output())
		}
	}
}

func (p *Process) serves() bool {
	connection, err := net.DialTimeout("tcp", p.Address, time.Second)
	if err != nil {
		return false
	}
	defer connection.Close()
	return p.ready == nil || p.ready(connection) == nil
}

// output is the end of what the process wrote.
func (p *Process) output() string {
	text, _ := os.ReadFile(filepath.Join(p.folder, "output"))
	more, _ := os.ReadFile(filepath.Join(p.folder, "errors.log"))
	text = append(text, more...)
	return fmt.Sprintf("%s: %s", p.folder, text[max(0, len(text)-2000):])
}

// Signal sends a signal, such as SIGSTOP.
func (p *Process) Signal(signal syscall.Signal) {
	p.t.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if err := p.running.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
}

// Kill ends the process with SIGKILL and waits until it is gone.
func (p *Process) Kill() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.running == nil {
		return
	}
	_ = p.running.Process.Kill()
	<-p.exited
	p.running = nil
}

// Start starts a killed process again, without waiting for it.
func (p *Process) Start() {
	p.t.Helper()
	p.launch()
}

// Restart kills the process, starts it and waits until it accepts connections.
func (p *Process) Restart() {
	p.t.Helper()
	p.Kill()
	p.launch()
	p.Ready()
}
