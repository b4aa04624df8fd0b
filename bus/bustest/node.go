package bustest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pillion.dev/bus"
)

// node is one process of nats-server, which may be restarted on the same files.
type node struct {
	name    string
	config  string
	monitor string // URL of its HTTP port
	command *exec.Cmd
	log     *journal
}

// start starts a process and waits until clients can connect.
func (n *node) start(t testing.TB) {
	t.Helper()
	if n.command != nil {
		t.Fatalf("node %s runs", n.name)
	}
	n.log = &journal{}
	command := exec.Command(program(t), "-c", n.config)
	command.Stderr = n.log
	// Nodes end with the test, even if it is killed.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	n.command = command
	within(t, fmt.Sprintf("node %s is ready", n.name), func() bool { return strings.Contains(n.log.String(), "Server is ready") })
}

func (n *node) kill(t testing.TB) {
	t.Helper()
	if n.command == nil {
		t.Fatalf("node %s does not run", n.name)
	}
	if err := n.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = n.command.Wait() // killed
	n.command = nil
}

// stop kills the node if it runs, at the end of the test.
func (n *node) stop(t testing.TB) {
	t.Helper()
	if n.command != nil {
		n.kill(t)
	}
	if t.Failed() && n.log != nil {
		t.Logf("%s: %s", n.config, n.log)
	}
}

// writeFiles writes what the configurations of bus refer to.
func writeFiles(t testing.TB, authority, folder, certificate string) {
	t.Helper()
	text, err := os.ReadFile(certificate)
	own, failed := os.ReadFile(filepath.Join(authority, "ca.crt"))
	err = errors.Join(err, failed, os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, bus.NodeFile), text, 0o600),
		os.WriteFile(filepath.Join(folder, bus.AuthorityFile), own, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// program is the path of nats-server in the version of go.mod: the go command builds it once
// and keeps it in its cache.
func program(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
})

// journal is a process's log.
type journal struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write adds to the log.
func (j *journal) Write(b []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.Write(b)
}

// String is the log so far.
func (j *journal) String() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.String()
}
