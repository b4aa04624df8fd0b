package main

import (
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"time"

	"pillion.dev/study/bench/fleet"
	"pillion.dev/study/bench/result"
)

// The server is killed after a third of the run, and is away for a fifth of it.
const (
	killAfter = 3
	killAway  = 5
	// leastKilled leaves time to start a server.
	leastKilled = 4 * time.Second
)

// runKilled lets an application report to a server that is killed, and comes back with its data.
func runKilled(ctx context.Context, s settings) (r result.Result, err error) {
	oml, err := fleet.FreeAddress()
	if err != nil {
		return nil, err
	}
	line, err := s.injects(oml)
	if err != nil {
		return nil, err
	}
	serve := func(address string) (*fleet.Server, error) {
		return fleet.StartServer(filepath.Join(s.bin, "pillion-server"), filepath.Join(s.folder, "server"), address, "--oml", oml)
	}
	server, err := serve("")
	if err != nil {
		return nil, err
	}
	defer func() { server.Stop() }()
	pace, err := start(ctx, "", "", line...)
	if err != nil {
		return nil, err
	}
	back, err := s.replace(ctx, server, serve)
	if err != nil {
		return nil, errors.Join(err, pace.stop(syscall.SIGKILL))
	}
	server = back
	if err := pace.wait(); err != nil {
		return nil, err
	}
	var i injected
	if r, err = i.read(pace.out.Bytes()); err != nil {
		return nil, err
	}
	return r, i.compare(ctx, server, r)
}

// replace kills the server, and starts one with its folder and addresses a while later.
func (s settings) replace(ctx context.Context, server *fleet.Server, serve func(address string) (*fleet.Server, error)) (*fleet.Server, error) {
	if err := sleep(ctx, s.length/killAfter); err != nil {
		return nil, err
	}
	server.Kill()
	if err := sleep(ctx, s.length/killAway); err != nil {
		return nil, err
	}
	return serve(server.Address)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// compare asks the archive for what it has of the samples: stored are different ones, twice are
// duplicates.
func (i injected) compare(ctx context.Context, server *fleet.Server, r result.Result) error {
	client, err := server.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	rows, err := fleet.Number(ctx, client, "SELECT count(*) FROM oml_bench_pace_load")
	if err != nil {
		return err
	}
	stored, err := fleet.Number(ctx, client, "SELECT count(DISTINCT n) FROM oml_bench_pace_load")
	if err != nil {
		return err
	}
	r["stored"], r["twice"], r["lost"] = stored, rows-stored, i.Samples-stored
	return nil
}
