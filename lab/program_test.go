package lab_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pillion.dev/internal/test/hang"
)

// program is a program of the lab's service: "server", or "agent-" and a host.
type program struct {
	b         *serviceBed
	name      string
	host      string
	arguments []string
	pid       int
	starts    int
}

// program finds a running program.
func (b *serviceBed) program(name string) *program {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name + ".pid"))
	var running struct{ Pid int }
	if err == nil {
		err = json.Unmarshal(text, &running)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", running.Pid))
	if err != nil {
		b.t.Fatal(err)
	}
	host := b.server
	if agent, ok := strings.CutPrefix(name, "agent-"); ok {
		host = agent
	}
	return &program{b: b, name: name, host: host, pid: running.Pid,
		arguments: strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")}
}

// kill kills it.
func (p *program) kill() {
	p.b.t.Helper()
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		p.b.t.Fatalf("kill %s: %v", p.name, err)
	}
	eventually(p.b.t, p.name+" to be gone", func() bool {
		return syscall.Kill(p.pid, 0) == syscall.ESRCH
	})
}

// start restarts it with the same command line and waits until it is ready.
func (p *program) start() {
	t := p.b.t
	t.Helper()
	p.starts++
	path := p.b.path(fmt.Sprintf("%s-again%d.log", p.name, p.starts))
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command := exec.Command(p.arguments[0], p.arguments[1:]...)
	command.Stdout, command.Stderr, command.Dir = log, log, "/"
	if err := p.b.Start(p.host, command); err != nil {
		t.Fatal(err)
	}
	p.pid = command.Process.Pid
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	patience := time.Now().Add(hang.Limit)
	for !p.ready(path) {
		select {
		case <-ended:
			t.Fatalf("%s exited after it was restarted", p.name)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(patience) {
			t.Fatalf("%s was restarted and is not ready", p.name)
		}
	}
}

func (p *program) ready(path string) bool {
	text, err := os.ReadFile(path)
	return err == nil && strings.Contains("\n"+string(text), "\nready\n")
}

// join starts an agent on another host.
func (b *serviceBed) join(host string, arguments ...string) *program {
	b.t.Helper()
	address := b.serviceAddress()
	p := &program{b: b, name: "agent-" + host, host: host, arguments: append([]string{
		agentPath, "run", "--server", address, "--name", host,
		"--token-file", filepath.Join(b.path("server"), "join.token"), "--data", b.path("agent-" + host),
		"--path-validation", "off",
	}, arguments...)}
	p.start()
	return p
}
