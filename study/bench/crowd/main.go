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

	"pillion.dev/study/bench/fleet"
)

type settings struct {
	server    string
	fleet     int // servers of the fleet to start
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

// flags defines the flags of the program.
func (s *settings) flags(f *flag.FlagSet) {
	f.StringVar(&s.server, "server", "", "join this server, host:port; with -steps also several, separated by commas, among which the agents are divided; default: start one")
	f.IntVar(&s.fleet, "fleet", 0, "with -steps: start a fleet of so many servers on three NATS hubs, with an archive in one ClickHouse server")
	f.StringVar(&s.tokenFile, "token-file", "", "file of the join token, for -server")
	f.StringVar(&s.userFile, "user-token-file", "", "file of an operator's token, to create the session at -server")
	f.StringVar(&s.program, "program", "bin/pillion-server", "the server's program, where one is started; nats-server is beside it")
	f.StringVar(&s.http, "http", "", "address of the API of the server that is started; default any port")
	f.IntVar(&s.agents, "agents", 200, "simulated agents")
	f.StringVar(&s.pairs, "pairs", "10", "of how many sources each host gets traffic, or all")
	f.DurationVar(&s.interval, "interval", 0, "interval of the session's rows, or of an agent's with -steps; default 1s, with -pairs all 5s")
	f.IntVar(&s.routers, "routers", 20, "routers between the hosts")
	f.StringVar(&s.session, "session", "crowd", "session to create among all of them; empty for none")
	f.StringVar(&s.prefix, "prefix", "host", "names are PREFIX-001 and so on")
	f.Uint64Var(&s.seed, "seed", 1, "seed of the simulated network")
	f.BoolVar(&s.sites, "sites", false, "set the label site of each agent, as an operator does")
	f.StringVar(&s.steps.text, "steps", "", "measure fleets of these sizes one after the other, such as 100,300,1000, with a row of each agent in an interval, and print a line of JSON for each, and another one for the last that was carried; stops at the first that is not")
	f.DurationVar(&s.steps.length, "length", 30*time.Second, "time for which each step is measured")
	f.StringVar(&s.steps.processes, "processes", "", "processes whose CPU time and memory are printed with -server, as NAME=PID,...")
}

func main() {
	var s settings
	s.flags(flag.CommandLine)
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
		return fmt.Errorf("-server %s: want -token-file, too", s.server)
	}
	if s.fleet < 0 || s.fleet > 0 && (s.server != "" || len(s.steps.sizes) == 0) {
		return fmt.Errorf("-fleet %d: want a number of servers with -steps, and without -server", s.fleet)
	}
	return nil
}

func run(ctx context.Context, s settings) error {
	folder, err := os.MkdirTemp("", "pillion-crowd-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	stop, err := s.start(ctx, folder)
	defer stop()
	if err != nil {
		return err
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

// start starts a server or a fleet, unless one runs, and notes how to reach it; stop ends it.
func (s *settings) start(ctx context.Context, folder string) (stop func(), err error) {
	switch {
	case s.server != "":
		return func() {}, nil
	case s.fleet > 0:
		cluster, err := fleet.StartCluster(ctx, filepath.Dir(s.program), folder, s.fleet)
		if err != nil {
			return cluster.Stop, err
		}
		s.server, s.steps.measured = cluster.Addresses(), cluster.Processes()
		s.use(cluster.Servers[0])
		return cluster.Stop, nil
	}
	server, err := fleet.StartServer(s.program, filepath.Join(folder, "server"), s.http)
	if err != nil {
		return func() {}, err
	}
	s.server = server.Address
	if strings.HasPrefix(s.server, ":") {
		s.server = "localhost" + s.server
	}
	s.use(server)
	s.steps.measured = map[string]int{"server": server.Command.Process.Pid}
	if len(s.steps.sizes) == 0 {
		fmt.Printf("server: http://%s, token in %s\n", s.server, s.userFile)
	}
	return server.Stop, nil
}

// use takes the tokens of a server.
func (s *settings) use(server *fleet.Server) {
	s.tokenFile, s.userFile = filepath.Join(server.Folder, "join.token"), filepath.Join(server.Folder, "admin.token")
}
