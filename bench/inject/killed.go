package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"pillion.dev/bench/fleet"
)

const (
	killRate    = 20_000.0
	killSeconds = 15.0
	killAfter   = 5 * time.Second
	killAway    = 3 * time.Second
)

// measureKilled runs the program against a real server, which is killed after 5 s and
// restarted 3 s later with its data. Stored counts sequence numbers in the archive, Twice
// duplicates.
func (r *result) measureKilled(program, pillion string) error {
	folder, err := os.MkdirTemp("", "inject")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	oml, err := fleet.FreeAddress()
	if err != nil {
		return err
	}
	start := func(address string) (*fleet.Server, error) {
		return fleet.StartServer(pillion, filepath.Join(folder, "server"), address, "--oml", oml)
	}
	server, err := start("")
	if err != nil {
		return err
	}
	defer func() { server.Stop() }()
	began := time.Now()
	cmd := exec.Command(program, strconv.FormatFloat(killRate, 'f', -1, 64), strconv.FormatFloat(killSeconds, 'f', -1, 64),
		"--oml-id", "bench", "--oml-domain", "bench", "--oml-collect", "tcp:"+oml)
	cmd.Stderr = os.Stderr
	ended := make(chan error, 1)
	var text []byte
	go func() {
		var err error
		text, err = cmd.Output()
		ended <- err
	}()
	time.Sleep(killAfter - time.Since(began))
	if err := server.Command.Process.Kill(); err != nil {
		return err
	}
	server.Stop()
	time.Sleep(killAway)
	if server, err = start(server.Address); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	if err := json.Unmarshal(text, r); err != nil {
		return err
	}
	return r.count(server)
}

// count queries the archive.
func (r *result) count(server *fleet.Server) error {
	client, err := server.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	rows, err := fleet.Number(context.Background(), client, "SELECT count(*) FROM oml_bench_pace_load")
	if err != nil {
		return err
	}
	if r.Stored, err = fleet.Number(context.Background(), client, "SELECT count(DISTINCT n) FROM oml_bench_pace_load"); err != nil {
		return err
	}
	r.Twice = rows - r.Stored
	return nil
}
