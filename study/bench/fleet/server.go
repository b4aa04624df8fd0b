// Package fleet starts what the benches of the service require: a pillion-server in a
// separate process, as users run it, and agents in this one, each with its own certificate
// and connection.
package fleet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"pillion.dev/internal/free"
)

// Server is the program that is measured, or queried.
type Server struct {
	Command *exec.Cmd
	// Folder is the server's data directory, Address the address of its API.
	Folder, Address string
}

// StartServer starts the program with its own folder and waits until it is ready. An empty
// address means any free loopback port; options are additional arguments. Its log is in a
// file beside the folder.
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
	// Ctrl-C stops this process only, which stops the server after the agents.
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

// FreeAddress returns an unused port of this machine, and none twice.
func FreeAddress() (string, error) {
	port, err := free.Find()
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// Secret returns a token that the server has created: admin.token or join.token.
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

// Stop stops the server and waits until it has exited.
func (s *Server) Stop() {
	if s.Command.ProcessState != nil {
		return
	}
	_ = s.Command.Process.Signal(syscall.SIGTERM)
	_ = s.Command.Wait() // an interrupted server may exit with an error
}

// Kill ends the server without a chance to do anything.
func (s *Server) Kill() {
	_ = s.Command.Process.Kill()
	s.Stop()
}

// Resident returns the resident memory of the server, bytes.
func (s *Server) Resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.Command.Process.Pid))
	if err != nil {
		return 0, err
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0, fmt.Errorf("read memory of the server: %q", text)
	}
	pages, err := strconv.ParseInt(words[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
