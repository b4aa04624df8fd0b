package main

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
	"sync/atomic"
	"syscall"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// server is the program that is measured.
type server struct {
	command  *exec.Cmd
	folder   string
	address  string
	largest  atomic.Int64 // resident bytes
	watching context.CancelFunc
}

func startServer(ctx context.Context, program, folder string) (*server, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	s := &server{folder: folder, address: address}
	s.command = exec.Command(program, "--data", folder, "--http", address, "--nats-listen", "127.0.0.1:0")
	s.command.Stderr = os.Stderr
	output, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if lines.Text() == "ready" {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			ctx, s.watching = context.WithCancel(ctx)
			go s.watch(ctx)
			return s, nil
		}
	}
	return nil, fmt.Errorf("start server: %w", s.command.Wait())
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// watch keeps the largest memory that the server had.
func (s *server) watch(ctx context.Context) {
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.command.Process.Pid))
		if err != nil {
			return
		}
		pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
		if err == nil {
			s.largest.Store(max(s.largest.Load(), pages*int64(os.Getpagesize())))
		}
	}
}

func (s *server) secret(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.folder, name))
	return strings.TrimSpace(string(text)), err
}

// account asks the archive what it has, and ends the server.
func (s *server) account(ctx context.Context, r *result) error {
	token, err := s.secret("operator.token")
	if err != nil {
		return err
	}
	client, err := api.NewClient(api.ClientOptions{Server: s.address, Token: token})
	if err != nil {
		return err
	}
	defer client.Close()
	stream, err := client.Data.Query(ctx, &pillionv1.QueryRequest{Sql: "SELECT count(*) AS n FROM " + columns.Name})
	if err != nil {
		return err
	}
	for stream.Receive() {
		for _, row := range stream.Msg().Rows {
			r.RowsStored = row.Values[0].GetInt()
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	r.ServerMiB = float64(s.largest.Load()) / (1 << 20)
	s.stop()
	if usage, ok := s.command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.ServerCPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	info, err := os.Stat(filepath.Join(s.folder, "archive.duckdb"))
	if err != nil {
		return err
	}
	r.ArchiveMiB = float64(info.Size()) / (1 << 20)
	r.BytesPerRow = float64(info.Size()) / float64(max(r.RowsStored, 1))
	return nil
}

func (s *server) stop() {
	if s.command.ProcessState != nil {
		return
	}
	s.watching()
	_ = s.command.Process.Signal(syscall.SIGTERM)
	_ = s.command.Wait() // a server that was told to end may say so
}
