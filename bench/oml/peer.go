package main

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // reads the database of OML's server

	"pillion.dev/bench/fleet"
	"pillion.dev/omsp"
)

// measurePeer sends a quarter of the rows to OML's server. Its file is read once a second,
// without a lock: it loses rows while a reader holds one.
func measurePeer(ctx context.Context, s settings, content omsp.Content, reader bool) (figure, error) {
	f := s.figure("oml2-server", content, reader, 4)
	folder, err := os.MkdirTemp("", "pillion-oml-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(folder)
	address, err := fleet.FreeAddress()
	if err != nil {
		return f, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return f, err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := exec.CommandContext(ctx, s.peer, "-l", port, "-D", folder, "--logfile", filepath.Join(folder, "log"))
	server.Dir = folder // it writes files to its working directory
	if err := server.Start(); err != nil {
		cancel()
		return f, err
	}
	defer func() { cancel(); server.Wait() }()
	head, rows, err := encode(content)
	if err != nil {
		return f, err
	}
	if err := listening(address); err != nil {
		return f, err
	}
	begun := time.Now()
	if err := flood(address, head, rows, int(f.Rows/connections/block)); err != nil {
		return f, err
	}
	f.Stored, f.Seconds = settled(filepath.Join(folder, "bench.sq3"), f.Rows, begun)
	f.RowsSecond = float64(f.Stored) / f.Seconds
	return f, nil
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
func settled(path string, want int64, begun time.Time) (stored int64, seconds float64) {
	last := time.Now()
	for stored < want && time.Since(last) < 5*time.Second {
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
