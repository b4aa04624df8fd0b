package lab_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// threeHosts has two agents and a host without one.
const threeHosts = `
hosts: {a: {}, b: {}, c: {}, r: {forward: true}, noc: {}}
links:
  - {ends: [a, r]}
  - {ends: [b, r]}
  - {ends: [c, r]}
  - {ends: [r, noc]}
service:
  server: noc
  agents: [a, b]
`

// guest is an agent that the test starts itself.
type guest struct {
	command *exec.Cmd
	ended   chan struct{}
	mu      sync.Mutex
	output  bytes.Buffer
}

// Write implements io.Writer for the agent's output.
func (g *guest) Write(text []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.output.Write(text)
}

func (g *guest) text() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.output.String()
}

// guest runs an agent until the test ends.
func (b *serviceBed) guest(host, folder string, arguments ...string) *guest {
	b.t.Helper()
	g := &guest{ended: make(chan struct{})}
	g.command = exec.Command(agentPath, append([]string{"run", "--data", folder}, arguments...)...)
	g.command.Stdout, g.command.Stderr = g, g
	if err := b.Start(host, g.command); err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer close(g.ended)
		_ = g.command.Wait() // fails checks the exit code
	}()
	b.t.Cleanup(func() {
		_ = g.command.Process.Signal(os.Interrupt)
		<-g.ended
		if b.t.Failed() {
			b.t.Logf("guest on %s:\n%s", host, g.text())
		}
	})
	return g
}

// fails waits until the guest has exited and checks its exit code and error.
func (b *serviceBed) fails(g *guest, words string) {
	b.t.Helper()
	eventually(b.t, "the agent to give up", func() bool {
		select {
		case <-g.ended:
			return true
		default:
			return false
		}
	})
	if code := g.command.ProcessState.ExitCode(); code == 0 || !strings.Contains(g.text(), words) {
		b.t.Errorf("exit code %d, output %q, want %q", code, g.text(), words)
	}
}

func (b *serviceBed) events(kind, about string) int64 {
	n, err := b.tryNumber("SELECT count(*) FROM events WHERE kind = '%s' AND about = '%s'", kind, about)
	if err != nil {
		return 0
	}
	return n
}

// expiry returns when the certificate of an agent expires, according to the server.
func (b *serviceBed) expiry(agent string) (time.Time, bool) {
	output, err := b.tryPillion("agents", "show", agent, "-o", "json")
	var shown struct {
		State   string
		Expires time.Time `json:"certificate_expires"`
	}
	if err == nil {
		err = json.Unmarshal([]byte(output), &shown)
	}
	return shown.Expires, err == nil && shown.State == "connected"
}

// TestUnauthorisedAgentsAreRefused: a host that is not authorised gets the reason, and no
// other agent is affected.
func TestUnauthorisedAgentsAreRefused(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, threeHosts)
	address := b.serviceAddress()
	join := filepath.Join(b.path("server"), "join.token")
	token, err := os.ReadFile(join)
	if err != nil {
		t.Fatal(err)
	}

	copied := t.TempDir()
	identity, err := os.ReadFile(filepath.Join(b.path("agent-a"), "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "identity.json"), identity, 0o600); err != nil {
		t.Fatal(err)
	}
	second := b.guest("c", copied)
	eventually(t, "the second agent of that name to log the reason", func() bool {
		return strings.Contains(second.text(), `agent \"a\" is already connected`)
	})
	eventually(t, "the event", func() bool { return b.events("agent-refused", "a") > 0 })
	b.fails(b.guest("c", t.TempDir(), "--server", address, "--name", "a", "--token-file", join), "an agent with that name exists")
	wrong := "pj_" + strings.Split(string(token), "_")[1] + "_" + strings.Repeat("A", 26)
	b.fails(b.guest("c", t.TempDir(), "--server", address, "--name", "c", "--token", wrong), "does not accept the join token")
	b.fails(b.guest("c", t.TempDir(), "--server", address, "--name", "c",
		"--token-file", filepath.Join(b.path("server"), "admin.token")), "does not accept the join token")
	if log := b.log("agent-a"); strings.Contains(log, "not connected") || b.events("agent-lost", "a") != 0 {
		t.Errorf("the second agent of the name affected the first:\n%s", log)
	}

	b.pillion("agents", "revoke", "b")
	b.says("agent-b", "is revoked")
	if _, connected := b.expiry("b"); connected {
		t.Error("a revoked agent is connected")
	}
	eventually(t, "the event", func() bool { return b.events("agent-revoked", "b") == 1 })
	b.balances("a", 0)
}
