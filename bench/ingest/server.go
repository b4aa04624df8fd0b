package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"pillion.dev/bench/fleet"
)

// server is the program that is measured.
type server struct {
	*fleet.Server
	largest  atomic.Int64 // resident bytes
	watching context.CancelFunc
}

func startServer(ctx context.Context, program, folder string) (*server, error) {
	started, err := fleet.StartServer(program, folder, "")
	if err != nil {
		return nil, err
	}
	s := &server{Server: started}
	ctx, s.watching = context.WithCancel(ctx)
	go s.watch(ctx)
	return s, nil
}

// watch records the server's peak memory.
func (s *server) watch(ctx context.Context) {
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		resident, err := s.Resident()
		if err != nil {
			return
		}
		s.largest.Store(max(s.largest.Load(), resident))
	}
}

// account counts the rows in the archive, and stops the server.
func (s *server) account(ctx context.Context, r *result) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	if r.RowsStored, err = fleet.Number(ctx, client, "SELECT count(*) AS n FROM "+columns.Name); err != nil {
		return err
	}
	r.ServerMiB = float64(s.largest.Load()) / (1 << 20)
	s.stop()
	if usage, ok := s.Command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.ServerCPU = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	info, err := os.Stat(filepath.Join(s.Folder, "archive.duckdb"))
	if err != nil {
		return err
	}
	r.ArchiveMiB = float64(info.Size()) / (1 << 20)
	r.BytesPerRow = float64(info.Size()) / float64(max(r.RowsStored, 1))
	return nil
}

func (s *server) stop() {
	s.watching()
	s.Stop()
}
