//go:build long

package dist

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/free"
	"pillion.dev/internal/test/hang"
)

// programs are those of one version.
type programs struct{ agent, server, client string }

// buildAt builds the programs of the source in a folder.
func buildAt(t *testing.T, source, ldflags string) programs {
	t.Helper()
	out := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", out+"/", "./cmd/pillion-agent", "./cmd/pillion-server", "./cmd/pillion")
	build.Dir = source
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", source, err, said)
	}
	return programs{filepath.Join(out, "pillion-agent"), filepath.Join(out, "pillion-server"), filepath.Join(out, "pillion")}
}

// previous returns the source of the latest release, with which this version works together: that of
// the commit that set its number. It needs a clone with history.
func previous(t *testing.T) string {
	t.Helper()
	compatible, err := exec.Command("git", "log", "-1", "--format=%H", "--", "internal/version/release.go").Output()
	if err != nil || len(compatible) == 0 {
		t.Fatalf("find the commit of the release (fetch the history if this is a shallow clone): %v", err)
	}
	source := filepath.Join(t.TempDir(), "previous")
	if said, err := exec.Command("git", "worktree", "add", "--detach", source, strings.TrimSpace(string(compatible))).CombinedOutput(); err != nil {
		t.Fatalf("check out the previous version (fetch the history if this is a shallow clone): %v: %s", err, said)
	}
	t.Cleanup(func() {
		if said, err := exec.Command("git", "worktree", "remove", "--force", source).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	})
	return source
}

// site is a server and an agent, of versions that change, with their folders and ports.
type site struct {
	t                          *testing.T
	data, host, http, bus, oml string
	server, agent              *process
	sent                       int
}

func newSite(t *testing.T) *site {
	base := t.TempDir()
	return &site{t: t, data: filepath.Join(base, "server"), host: filepath.Join(base, "agent"), http: free.Address(t), bus: free.Address(t), oml: free.Address(t)}
}

// process is a running program.
type process struct {
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// run starts a program and waits until it prints ready.
func (s *site) run(name string, words ...string) *process {
	s.t.Helper()
	log, err := os.CreateTemp(s.t.TempDir(), "log")
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	p := &process{command: exec.Command(name, words...), log: log.Name(), ended: make(chan struct{})}
	p.command.Stderr = log
	out, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(p.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				close(ready)
			}
		}
		_ = p.command.Wait()
	}()
	s.t.Cleanup(func() { s.stop(p) })
	select {
	case <-ready:
	case <-p.ended:
		s.t.Fatalf("%s ends: %s", name, p.said())
	case <-time.After(hang.Limit):
		s.t.Fatalf("%s is not ready: %s", name, p.said())
	}
	return p
}

func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	return string(text)
}

func (s *site) stop(p *process) {
	select {
	case <-p.ended:
		return
	default:
	}
	_ = p.command.Process.Signal(os.Interrupt)
	select {
	case <-p.ended:
	case <-time.After(hang.Limit):
		s.t.Errorf("%s does not stop", p.command.Path)
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// serve starts the server, or replaces it.
func (s *site) serve(v programs) {
	s.t.Helper()
	if s.server != nil {
		s.stop(s.server)
	}
	s.server = s.run(v.server, "run", "--data", s.data, "--http", s.http, "--nats-listen", s.bus)
}

// join starts the agent, or replaces it.
func (s *site) join(v programs) {
	s.t.Helper()
	if s.agent != nil {
		s.stop(s.agent)
	}
	s.agent = s.run(v.agent, "run", "--server", s.http, "--token-file", filepath.Join(s.data, "join.token"), "--name", "a", "--data", s.host, "--oml", s.oml)
}

// report sends rows to the agent, as an application on its host does.
func (s *site) report(rows int) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.oml)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "protocol: 4\ndomain: upgrade\nstart-time: %d\nsender-id: s\napp-name: app\nschema: 1 app_numbers n:uint32\ncontent: text\n\n", time.Now().Unix())
	for i := range rows {
		fmt.Fprintf(conn, "%d.5\t1\t%d\t%d\n", i, i+1, s.sent+i)
	}
	// The agent finds out the user of a connection while it is open.
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		s.t.Fatal(err)
	}
	s.sent += rows
}

// query returns the single number that a query of the rows yields, or -1.
func (s *site) query(v programs, sql string) int {
	ctx, cancel := context.WithTimeout(s.t.Context(), hang.Limit)
	defer cancel()
	ask := exec.CommandContext(ctx, v.client, "--server", "https://"+s.http, "--ca", filepath.Join(s.data, "ca.crt"), "--token-file", filepath.Join(s.data, "admin.token"),
		"query", "-o", "csv", sql)
	out, err := ask.Output()
	lines := strings.Fields(string(out))
	if err != nil || len(lines) == 0 {
		return -1
	}
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		return -1
	}
	return n
}

const table = "oml_upgrade_app_numbers"

// complete waits until every row is stored, and fails if one is stored twice.
func (s *site) complete(v programs) {
	s.t.Helper()
	stored := -1
	for end := time.Now().Add(hang.Limit); stored < s.sent && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		stored = s.query(v, "SELECT count(DISTINCT n) FROM "+table)
	}
	if all := s.query(v, "SELECT count(*) FROM "+table); stored != s.sent || all != s.sent {
		s.t.Errorf("%d rows are stored, %d of them different, want %d\nserver: %s\nagent: %s", all, stored, s.sent, s.server.said(), s.agent.said())
	}
}

// TestLongUpgrade: versions that are one apart work together in both directions, and no row
// is lost or stored twice. The next version is this one with a later layout of batches.
func TestLongUpgrade(t *testing.T) {
	before := buildAt(t, previous(t), "")
	now := buildAt(t, ".", "")
	next := buildAt(t, ".", "-X pillion.dev/bus.batchLayout=2")
	const rows = 500
	t.Run("the server first", func(t *testing.T) {
		s := newSite(t)
		s.serve(before)
		s.join(before)
		s.report(rows)
		s.complete(before)
		s.serve(now)
		s.report(rows)
		s.complete(now)
		s.join(now)
		s.report(rows)
		s.complete(now)
	})
	t.Run("the agent first", func(t *testing.T) {
		s := newSite(t)
		s.serve(before)
		s.join(now)
		s.report(rows)
		s.complete(before)
		s.serve(now)
		s.report(rows)
		s.complete(now)
	})
	t.Run("the next server first", func(t *testing.T) {
		s := newSite(t)
		s.serve(now)
		s.join(now)
		s.report(rows)
		s.complete(now)
		s.serve(next)
		s.report(rows)
		s.complete(next)
	})
	t.Run("the next agent first", func(t *testing.T) {
		s := newSite(t)
		s.serve(now)
		s.join(now)
		s.report(rows)
		s.complete(now)
		s.join(next)
		s.report(rows)
		for end := time.Now().Add(hang.Limit); !strings.Contains(s.agent.said(), "does not support these batches"); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the batches of the next version are not refused: %s", s.agent.said())
			}
		}
		if kept, err := filepath.Glob(filepath.Join(s.host, "spool", "rejected", "*")); err != nil || len(kept) != 0 {
			t.Errorf("batches were set aside: %v, %v", kept, err)
		}
		if n := s.query(now, "SELECT count(*) FROM "+table); n != rows {
			t.Errorf("%d rows are stored before the server knows the layout, want %d", n, rows)
		}
		s.join(next) // a restart of the agent keeps them too
		s.serve(next)
		s.complete(next)
	})
}
