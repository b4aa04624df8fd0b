package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // reads the database of OML's server

	"pillion.dev/study/bench/result"
)

func peerCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	return loadCommand(f, "oml2-server", "OML's server", load.toPeer)
}

// toPeer sends everything to OML's server. Its file is read without a lock: it loses rows while
// a reader holds one.
func (l load) toPeer(ctx context.Context) (result.Result, error) {
	_, port, err := net.SplitHostPort(l.address)
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(serving, l.program, "-l", port, "-D", l.folder, "--logfile", filepath.Join(l.folder, "log"))
	server.Dir = l.folder // it writes files to its working directory
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		cancel()
		return nil, fmt.Errorf("start OML's server: %w", err)
	}
	defer func() { cancel(); server.Wait() }()
	if err := listening(l.address); err != nil {
		return nil, err
	}
	begun, err := l.send(ctx)
	if err != nil {
		return nil, err
	}
	stored, seconds := settled(ctx, filepath.Join(l.folder, "bench.sq3"), l.rows, begun)
	if stored == 0 {
		return nil, errors.New("OML's server has stored nothing")
	}
	return l.report(stored, seconds), ctx.Err()
}

func listening(address string) (err error) {
	for begun := time.Now(); time.Since(begun) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.Dial("tcp", address); err == nil {
			return conn.Close()
		}
	}
	return err
}

// settled waits until all rows are stored, or none were added for 5 s. The seconds are
// those until the number was reached, to a quarter of a second.
func settled(ctx context.Context, path string, want int64, begun time.Time) (stored int64, seconds float64) {
	last := time.Now()
	for stored < want && time.Since(last) < 5*time.Second && ctx.Err() == nil {
		time.Sleep(250 * time.Millisecond)
		if n, err := rowsIn(path); err == nil && n > stored {
			stored, last = n, time.Now()
		}
	}
	return stored, last.Sub(begun).Seconds()
}

func rowsIn(path string) (n int64, err error) {
	file, err := sql.Open("sqlite", "file:"+path+"?mode=ro&immutable=1")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return n, file.QueryRow("SELECT max(oml_tuple_id) FROM app_lin").Scan(&n)
}
