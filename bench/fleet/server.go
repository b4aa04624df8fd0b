// Package fleet starts what the benches of the service need: a pillion-server, the
// program that users run, in a process of its own, and agents in this one, each with
// a certificate and a connection of its own.
package fleet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Server is the program that is measured, or asked.
type Server struct {
	Command *exec.Cmd
	// Folder is all that the server keeps, Address that of its API.
	Folder, Address string
}

// StartServer starts the program with a folder of its own and waits until it is
// ready. An empty address means any free port of this machine alone; options are more
// of its command line. What it logs is in a file beside the folder.
func StartServer(program, folder, address string, options ...string) (*Server, error) {
	if address == "" {
		var err error
		if address, err = FreeAddress(); err != nil {
			return nil, fmt.Errorf("start server: %w", err)
		}
	}
	s := &Server{Folder: folder, Address: address}
	s.Command = exec.Command(program, "--data", folder, "--http", address, "--nats-listen", "127.0.0.1:0")
	s.Command.Args = append(s.Command.Args, options...)
	// Ctrl-C is ours: the server ends when we tell it to, after the agents.
	s.Command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	log, err := os.Create(folder + ".log")
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	defer log.Close()
	s.Command.Stderr = log
	output, err := s.Command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	if err := s.Command.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if lines.Text() == "ready" {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return s, nil
		}
	}
	text, _ := os.ReadFile(log.Name())
	return nil, fmt.Errorf("start server: it ended: %w: %s", s.Command.Wait(), bytes.TrimSpace(text))
}

// FreeAddress is a port of this machine that nobody has taken.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// Secret is a token that the server has made: operator.token or join.token.
func (s *Server) Secret(name string) (string, error) {
	return ReadSecret(filepath.Join(s.Folder, name))
}

// ReadSecret reads a token from its file.
func ReadSecret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Stop ends the server and waits until it has.
func (s *Server) Stop() {
	if s.Command.ProcessState != nil {
		return
	}
	_ = s.Command.Process.Signal(syscall.SIGTERM)
	_ = s.Command.Wait() // a server that was told to end may say so
}
