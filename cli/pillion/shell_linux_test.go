package pillion

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/internal/test/hang"
)

// shell is an interactive shell on a terminal, which knows the program as pillion.
type shell struct {
	t      *testing.T
	master *os.File
	shown  strings.Builder
}

func startShell(t *testing.T, name string, options ...string) *shell {
	t.Helper()
	_, server := newFake(t)
	p := newProgram(t, server)
	folder := t.TempDir()
	if err := os.Symlink(os.Args[0], filepath.Join(folder, "pillion")); err != nil {
		t.Fatal(err)
	}
	master, slave := openTerminal(t, 200, 50)
	command := exec.Command(name, options...)
	command.Env, command.Dir = append(p.environment, "PATH="+folder+":"+os.Getenv("PATH"), "TERM=dumb", "PS1=ready> ", "LANG=C.UTF-8"), p.home
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	hung := time.AfterFunc(hang.Limit, func() { _ = command.Process.Kill() })
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		hung.Stop()
	})
	return &shell{t: t, master: master}
}

// types enters text and waits for what the terminal then shows.
func (s *shell) types(text, want string) {
	s.t.Helper()
	s.shown.Reset()
	if _, err := s.master.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
	if !readUntil(s.master, want, &s.shown) {
		s.t.Fatalf("typed %q, no %q in %q", text, want, s.shown.String())
	}
}

// completes a command, and the name of an agent that the server knows. The line is deleted in between.
func (s *shell) completes() {
	s.t.Helper()
	s.types("pillion sess\t", "pillion session ")
	s.types("\x15pillion agents show nor\t", "nor"+"th1 ")
}

func TestBashCompletes(t *testing.T) {
	s := startShell(t, "bash", "--norc", "--noprofile", "-i")
	s.types("source <(pillion completion bash) && echo loaded=$?\n", "loaded=0")
	s.completes()
}
