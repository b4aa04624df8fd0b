package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pillion.dev/archive/clickhouse"
	"pillion.dev/bench/fleet"
	config "pillion.dev/internal/clickhouse"
)

const (
	database  = "bench"
	startMost = 60 * time.Second
	stopMost  = 5 * time.Second
)

// server is a ClickHouse server with its files in a folder, on ports of the loopback address.
type server struct {
	cluster config.Cluster
	process *exec.Cmd
	exited  chan struct{}
}

func start(ctx context.Context, folder string) (*server, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	var ports [3]uint16
	for i := range ports {
		port, err := fleet.FreePort()
		if err != nil {
			return nil, err
		}
		ports[i] = uint16(port)
	}
	node := config.Node{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ports[0]), HTTP: ports[1], Interserver: ports[2]}
	s := &server{cluster: config.Cluster{Shards: [][]config.Node{{node}}}, exited: make(chan struct{})}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	command, err := s.cluster.WriteNode(folder, 0, 0)
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(folder, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.process = exec.Command(command[0], command[1:]...)
	s.process.Dir, s.process.Stdout, s.process.Stderr = folder, log, log
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("start ClickHouse (make install-fleet installs it): %w", err)
	}
	go func() {
		_ = s.process.Wait()
		close(s.exited)
	}()
	if err := s.ready(ctx, node.Address.String()); err != nil {
		s.stop()
		return nil, fmt.Errorf("start ClickHouse in %s (its log is %s): %w", folder, log.Name(), err)
	}
	return s, nil
}

// ready waits until the server accepts connections.
func (s *server) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startMost)
	defer cancel()
	for {
		if c, err := net.Dial("tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.exited:
			return fmt.Errorf("it exited: %v", s.process.ProcessState)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop lets the server end, and kills it if that takes long: what was stored is stored.
func (s *server) stop() {
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(stopMost):
		_ = s.process.Process.Kill()
		<-s.exited
	}
}

// open opens the archive.
func (s *server) open(options clickhouse.Options) (*clickhouse.Archive, error) {
	return clickhouse.Open(strings.TrimPrefix(s.cluster.URL(database), "clickhouse:"), options)
}

// archive opens the archive for the length of work.
func (s *server) archive(options clickhouse.Options, work func(*clickhouse.Archive) error) error {
	a, err := s.open(options)
	if err != nil {
		return err
	}
	err = work(a)
	if failed := a.Close(); err == nil {
		err = failed
	}
	return err
}

// with starts a server in a folder, or in a temporary one, for the length of work.
func with(ctx context.Context, folder string, work func(*server) error) error {
	if folder == "" {
		temporary, err := os.MkdirTemp("", "clickhouse-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		folder = temporary
	}
	s, err := start(ctx, folder)
	if err != nil {
		return err
	}
	defer s.stop()
	return work(s)
}
