package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"pillion.dev/study/bench/fleet"
	"pillion.dev/study/bench/result"
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

// account compares the rows in the archive with those that were acknowledged, and stops the server.
func (s *server) account(ctx context.Context, acked int64, r result.Result) error {
	client, err := s.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	stored, err := fleet.Number(ctx, client, "SELECT count(*) AS n FROM "+columns.Name)
	if err != nil {
		return err
	}
	s.stop()
	info, err := os.Stat(filepath.Join(s.Folder, "archive.duckdb"))
	if err != nil {
		return err
	}
	rows := float64(max(stored, 1))
	r["rows"], r["missing_rows"] = acked, acked-stored
	r["memory_mb"], r["archive_bytes_per_row"] = float64(s.largest.Load())/1e6, float64(info.Size())/rows
	if usage, ok := s.Command.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r["cpu_us_per_row"] = float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e3 / rows
	}
	return nil
}

func (s *server) stop() {
	s.watching()
	s.Stop()
}
