// Command crowd simulates agents of a real pillion-server: any number of them enrol,
// report, apply the assignments of sessions and send rows like agents, over the real
// bus. Their measurements are synthetic: hosts at the edges of a mesh of routers, delays
// by distance with jitter, busy links, loss, changing routes.
//
// Without --server it starts its own server in a temporary folder. It provides data for
// the page, for queries and for manual tests. What it does not prove: no packets flow,
// so it says nothing about probes, and an agent here costs less than a real one.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pillion.dev/bench/fleet"
)

type settings struct {
	server    string
	tokenFile string
	userFile  string
	program   string
	http      string
	agents    int
	pairs     string
	sources   int // with traffic to each host; 0: all
	interval  time.Duration
	routers   int
	session   string
	prefix    string
	seed      uint64
	steps     steps
	sites     bool
}

func main() {
	var s settings
	flag.StringVar(&s.server, "server", "", "join this server, host:port; with --steps also several, separated by commas, among which the agents are divided; default: start one")
	flag.StringVar(&s.tokenFile, "token-file", "", "file of the join token, for --server")
	flag.StringVar(&s.userFile, "user-token-file", "", "file of an operator's token, to create the session at --server")
	flag.StringVar(&s.program, "program", "bin/pillion-server", "the server's program, where one is started")
	flag.StringVar(&s.http, "http", "", "address of the API of the server that is started; default any port")
	flag.IntVar(&s.agents, "agents", 200, "simulated agents")
	flag.StringVar(&s.pairs, "pairs", "10", "of how many sources each host gets traffic, or all")
	flag.DurationVar(&s.interval, "interval", 0, "interval of the session's rows; default 1s, with --pairs all 5s")
	flag.IntVar(&s.routers, "routers", 20, "routers between the hosts")
	flag.StringVar(&s.session, "session", "crowd", "session to create among all of them; empty for none")
	flag.StringVar(&s.prefix, "prefix", "host", "names are PREFIX-001 and so on")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the simulated network")
	flag.BoolVar(&s.sites, "sites", false, "set the label site of each agent, as an operator does")
	flag.StringVar(&s.steps.text, "steps", "", "measure fleets of these sizes one after the other, such as 100,300,1000, with 1 row/s of each agent, and print a line of JSON for each; stops at the first that is not carried")
	flag.DurationVar(&s.steps.length, "length", 30*time.Second, "time for which each step is measured")
	flag.StringVar(&s.steps.processes, "processes", "", "processes whose CPU time and memory are printed with --server, as NAME=PID,...")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := s.complete()
	if err == nil {
		err = run(ctx, s)
	}
	if err != nil && ctx.Err() == nil {
		stop()
		log.Fatal(err)
	}
}

// complete parses values that flags cannot, and fills in defaults.
func (s *settings) complete() error {
	if s.pairs != "all" {
		n, err := strconv.Atoi(s.pairs)
		if err != nil || n < 1 {
			return fmt.Errorf("pairs %q: want a number of sources, or all", s.pairs)
		}
		s.sources = n
	}
	if s.interval == 0 {
		s.interval = time.Second
		if s.sources == 0 {
			s.interval = 5 * time.Second
		}
	}
	if err := s.steps.complete(); err != nil {
		return err
	}
	if n := len(s.steps.sizes); n > 0 {
		s.agents = s.steps.sizes[n-1]
	}
	if s.agents < 2 || s.agents > 20_000 || s.routers < 2 || s.routers > 2000 {
		return fmt.Errorf("%d agents, %d routers: want 2 to 20000 agents and 2 to 2000 routers", s.agents, s.routers)
	}
	if s.server != "" && s.tokenFile == "" {
		return fmt.Errorf("--server %s: want --token-file, too", s.server)
	}
	return nil
}

func run(ctx context.Context, s settings) error {
	folder, err := os.MkdirTemp("", "pillion-crowd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if s.server == "" {
		server, err := fleet.StartServer(s.program, filepath.Join(folder, "server"), s.http)
		if err != nil {
			return err
		}
		defer server.Stop()
		s.server, s.tokenFile = server.Address, filepath.Join(server.Folder, "join.token")
		if strings.HasPrefix(s.server, ":") {
			s.server = "localhost" + s.server
		}
		s.userFile = filepath.Join(server.Folder, "operator.token")
		if len(s.steps.sizes) > 0 {
			s.steps.measured = map[string]int{"server": server.Command.Process.Pid}
		} else {
			fmt.Printf("server: http://%s, token in %s\n", s.server, s.userFile)
		}
	}
	token, err := fleet.ReadSecret(s.tokenFile)
	if err != nil {
		return err
	}
	c := newCrowd(s)
	defer c.close()
	if len(s.steps.sizes) > 0 {
		return c.measureSteps(ctx, token, filepath.Join(folder, "agents"))
	}
	begun := time.Now()
	joining := fleet.Joining{Server: s.server, Token: token, Folder: filepath.Join(folder, "agents")}
	if err := c.join(ctx, joining); err != nil {
		return err
	}
	if s.sites && s.userFile != "" {
		if err := c.label(ctx); err != nil {
			return err
		}
	}
	if s.session != "" && s.userFile != "" {
		if err := createSession(ctx, s); err != nil {
			return err
		}
	}
	fmt.Printf("all %d agents are up after %v\n", s.agents, time.Since(begun).Round(10*time.Millisecond))
	c.work(ctx)
	return nil
}
