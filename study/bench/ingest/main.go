// Command ingest is the workload of the experiments on the way of rows from agents over the bus into the archive of a
// pillion-server (study/bench/ingest.yaml, study/bench/steady.yaml). Each run starts a server and agents, measures once and prints one
// JSON object. Its subcommands:
//
//	flood   the rate of acknowledged rows if all agents send as fast as their batches are acknowledged
//	steady  the time of rows from sample to archive if each agent sends one batch a second
//
// The server runs in a separate process, as users run it. The agents are in this process: each has its own certificate
// and connection, sends batches and waits for the answers. At the end the number of rows in the archive is queried:
// missing_rows were acknowledged and are not there. What it does not prove: both share the processors, so a server on its
// own machine ingests more.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pillion.dev/study/bench/result"
)

// settings of a run.
type settings struct {
	server string
	agents int
	rows   int
	window int // batches of an agent at once; 0 for one a second
	warm   time.Duration
	length time.Duration
}

var commands = map[string]result.Command{"flood": floodCommand, "steady": steadyCommand}

func main() { result.Main("ingest", commands) }

func (s *settings) flags(f *flag.FlagSet, agents, rows int) {
	f.StringVar(&s.server, "server", "bin/pillion-server", "the server's program")
	f.IntVar(&s.agents, "agents", agents, "agents")
	f.IntVar(&s.rows, "rows", rows, "rows in a batch")
	f.DurationVar(&s.warm, "warm", 5*time.Second, "how long rows flow before the measurement")
	f.DurationVar(&s.length, "length", 30*time.Second, "how long rows are measured")
}

func floodCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var s settings
	s.flags(f, 4, 32768)
	f.IntVar(&s.window, "window", 8, "batches of an agent that wait for their answer at once")
	return func(ctx context.Context) (result.Result, error) {
		if s.window < 1 {
			return nil, fmt.Errorf("invalid -window %d: want a positive number", s.window)
		}
		return s.measure(ctx)
	}
}

func steadyCommand(f *flag.FlagSet) func(ctx context.Context) (result.Result, error) {
	var s settings
	s.flags(f, 500, 100)
	return s.measure
}

// check refuses values with which nothing would be measured.
func (s *settings) check() error {
	switch {
	case s.agents < 1:
		return fmt.Errorf("invalid -agents %d: want a positive number", s.agents)
	case s.rows < 1:
		return fmt.Errorf("invalid -rows %d: want a positive number", s.rows)
	case s.warm < 0:
		return fmt.Errorf("invalid -warm %v: it is negative", s.warm)
	case s.length < leastLength:
		return fmt.Errorf("invalid -length %v: want at least %v", s.length, leastLength)
	}
	return nil
}

func (s *settings) measure(ctx context.Context) (r result.Result, err error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "pillion-ingest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	server, err := startServer(ctx, s.server, filepath.Join(folder, "server"))
	if err != nil {
		return nil, err
	}
	defer server.stop()
	swarm, err := join(ctx, server, s.agents, filepath.Join(folder, "agents"))
	if err != nil {
		return nil, err
	}
	defer swarm.close()
	r = result.Result{}
	if err := swarm.flow(ctx, *s, r); err != nil {
		return nil, err
	}
	swarm.close()
	if s.window == 0 {
		r["delivered"] = r["rows_per_s"].(float64) / float64(s.agents*s.rows)
	}
	return r, server.account(ctx, swarm.acked.Load(), r)
}
