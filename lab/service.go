package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Service runs Pillion itself in the lab: a server on one host, or a fleet of them, and agents
// on others.
type Service struct {
	// Server is the host that the server runs on.
	Server string `yaml:"server"`
	// Fleet is a fleet of servers that runs instead of Server.
	Fleet *Fleet `yaml:"fleet"`
	// Agents are the hosts whose agents join the server or the fleet.
	Agents []string `yaml:"agents"`
	// Forward is a TCP port on this machine's loopback that is forwarded to the API of the server, or of
	// the first server of a fleet that accepts the connection; 0, the default, means none.
	Forward int `yaml:"forward"`
	// Options are additional arguments of the command line of servers.
	Options []string `yaml:"options"`
	// AgentOptions are additional arguments of the command line of agents. Agents in a lab validate paths
	// only if AgentOptions say so, because the lab's ground truth counts all packets, also path probes.
	AgentOptions []string `yaml:"agent_options"`
	// Policy is the host policy (--policy) of all agents, which limits what they do; default: none.
	Policy map[string]any `yaml:"policy"`
}

// Ports of the server in a lab.
const (
	servicePort = 8470
	busPort     = 8471
)

// joinGrace is how long to wait until a server or an agent is ready.
const joinGrace = 30 * time.Second

// startService starts the server, then the agents, and returns once all agents
// have joined. Their folders and logs are in the state folder.
func (b *builder) startService(ctx context.Context) error {
	s := b.spec.Service
	start := b.startServer
	if s.Fleet != nil {
		start = b.startFleet
	}
	if err := start(ctx); err != nil {
		return err
	}
	servers, err := b.spec.serverAddresses()
	if err != nil {
		return err
	}
	var policy []string
	if s.Policy != nil {
		const file = "policy.yaml" // JSON is YAML, too
		if err := b.state.save(file, s.Policy); err != nil {
			return err
		}
		policy = []string{"--policy", b.state.path(file)}
	}
	for _, host := range s.Agents {
		urls, err := b.busOf(host)
		if err != nil {
			return err
		}
		arguments := slices.Concat([]string{
			"run", "--server", strings.Join(servers, ","), "--name", host,
			"--token-file", filepath.Join(b.state.serverFolder(s), "join.token"), "--data", b.state.path("agent-" + host),
			"--path-validation", "off",
		}, urls, policy, s.AgentOptions)
		if err := b.startInHost(ctx, host, "agent-"+host, b.agent, arguments...); err != nil {
			return err
		}
	}
	for _, host := range s.Agents {
		if err := b.isReady(ctx, "agent-"+host); err != nil {
			return err
		}
	}
	if s.Forward != 0 {
		return b.startForward(ctx)
	}
	return nil
}

// startServer starts the only server.
func (b *builder) startServer(ctx context.Context) error {
	s := b.spec.Service
	arguments := append([]string{
		"run", "--data", b.state.path(serverProgram), "--http", fmt.Sprintf(":%d", servicePort), "--nats-listen", fmt.Sprintf(":%d", busPort),
	}, s.Options...)
	return b.startInHost(ctx, s.Server, serverProgram, program(b.agent, "pillion-server"), arguments...)
}

// serverProgram is the name of the only server in the state folder.
const serverProgram = "server"

// servers returns the hosts of servers. The data directory of the first one has the initial tokens.
func (s *Service) servers() []string {
	if s.Fleet != nil {
		return s.Fleet.Servers
	}
	return []string{s.Server}
}

// serverAddresses returns the address of the API of each server, host:port, for agents.
func (s *Spec) serverAddresses() (list []string, err error) {
	for _, host := range s.Service.servers() {
		address, err := s.addressOf(host)
		if err != nil {
			return nil, err
		}
		list = append(list, net.JoinHostPort(address, strconv.Itoa(servicePort)))
	}
	return list, nil
}

// Servers returns the address of the API of each server, host:port, inside the lab.
func (l *Lab) Servers() ([]string, error) {
	if l.Spec.Service == nil {
		return nil, fmt.Errorf("find servers of lab %s: it has no service", l.Spec.Name)
	}
	return l.Spec.serverAddresses()
}

// serverFolder is the data directory of the server that has the initial tokens.
func (s state) serverFolder(service *Service) string {
	if service.Fleet != nil {
		return s.path(serverName(service.Fleet.Servers[0]))
	}
	return s.path(serverProgram)
}

// program returns the path of a program in the folder of the agent's binary.
func program(agent, name string) string {
	if resolved, err := filepath.EvalSymlinks(agent); err == nil {
		agent = resolved
	}
	return filepath.Join(filepath.Dir(agent), name)
}

// addressOf is the first address of a host, IPv4 before IPv6.
func (s *Spec) addressOf(host string) (string, error) {
	found := ""
	for _, l := range s.Links {
		for _, prefix := range l.Addresses[host] {
			if prefix.Addr().Is4() {
				return prefix.Addr().String(), nil
			}
			if found == "" {
				found = prefix.Addr().String()
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("find address of host %s: it has none", host)
	}
	return found, nil
}

// started records how a program of the service was started, so that it can be restarted.
type started struct {
	Host      string   `json:"host"`
	Path      string   `json:"path"`
	Arguments []string `json:"arguments"`
	// From is the offset in the log file, bytes, at which the output of this process begins.
	From int64 `json:"from"`
}

// startInHost starts a program of the service in a host. It waits until a server is ready, but not
// for an agent: agents start in parallel.
func (b *builder) startInHost(ctx context.Context, host, name, path string, arguments ...string) error {
	how := started{Host: host, Path: path, Arguments: arguments}
	if info, err := os.Stat(b.state.path(name + ".log")); err == nil {
		how.From = info.Size()
	}
	command := exec.Command(path, arguments...)
	err := b.startRecorded(host, name, command)
	if err == nil {
		err = b.state.save(name+".command", how)
	}
	if err != nil {
		return fmt.Errorf("start %s on %s: %w", name, host, b.said(name, err))
	}
	if name == serverProgram || strings.HasPrefix(name, serverName("")) {
		return b.isReady(ctx, name)
	}
	return nil
}

// StartService restarts a program that has ended: the server ("server"), an agent ("agent-" and its
// host), or a program of a fleet (its kind and its host, as ServicesOn names them). The additional
// arguments follow the previous ones. It waits until a server is ready, but not for other programs.
func (l *Lab) StartService(ctx context.Context, name string, more ...string) error {
	var how started
	if err := l.state.load(name+".command", &how); err != nil {
		return fmt.Errorf("start %s again: %w", name, err)
	}
	if p, alive := l.state.process(name); alive {
		return fmt.Errorf("start %s again: it runs, as process %d", name, p.Pid)
	}
	b := &builder{spec: &l.Spec, state: l.state}
	return b.startInHost(ctx, how.Host, name, how.Path, append(how.Arguments, more...)...)
}

// ServiceRuns reports whether a program of the service, named as for StartService, is running.
func (l *Lab) ServiceRuns(name string) bool {
	_, alive := l.state.process(name)
	return alive
}

// KillService kills the server or an agent (SIGKILL), as if it crashed, and waits until it has ended.
func (l *Lab) KillService(name string) error { return l.endService("kill", name, process.kill) }

// EndService asks the server or an agent to shut down, and waits until it has ended.
func (l *Lab) EndService(name string) error { return l.endService("end", name, process.end) }

func (l *Lab) endService(what, name string, end func(process) error) error {
	var p process
	err := l.state.load(name+".pid", &p)
	if err == nil {
		err = end(p)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
	return nil
}

// ServicesOn returns the names of the programs of the service on a host, the server first.
func (l *Lab) ServicesOn(host string) ([]string, error) {
	var names []string
	if s := l.Spec.Service; s != nil {
		switch {
		case s.Fleet != nil:
			names = s.Fleet.on(host)
		case s.Server == host:
			names = append(names, serverProgram)
		}
		if slices.Contains(s.Agents, host) {
			names = append(names, "agent-"+host)
		}
	}
	if names == nil {
		return nil, fmt.Errorf("find service on %s of lab %s: neither the server nor an agent runs there", host, l.Spec.Name)
	}
	return names, nil
}

// readyLine is the line of the log by which a server or an agent says that it is ready.
const readyLine = "ready\n"

var errNotReady = errors.New("not ready")

// isReady waits until the log of a program has readyLine, for at most joinGrace.
func (b *builder) isReady(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, joinGrace)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	var how started // empty for helpers, whose logs are new
	if b.state.has(name + ".command") {
		if err := b.state.load(name+".command", &how); err != nil {
			return err
		}
	}
	for {
		text, err := os.ReadFile(b.state.path(name + ".log"))
		if err != nil {
			return fmt.Errorf("wait for %s: %w", name, err)
		}
		text = text[min(how.From, int64(len(text))):]
		if slices.Contains(strings.SplitAfter(string(text), "\n"), readyLine) {
			return nil
		}
		if _, alive := b.state.process(name); !alive {
			return fmt.Errorf("wait for %s: %w", name, b.said(name, errors.New("it ended")))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", name, b.said(name, errNotReady))
		case <-retry.C:
		}
	}
}

// said adds the last line of a log to an error.
func (b *builder) said(name string, err error) error {
	text, _ := os.ReadFile(b.state.path(name + ".log"))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
}

// ServiceURL is the URL of the API of the lab's server for programs on this machine; "" without
// Service.Forward.
func (l *Lab) ServiceURL() string {
	if l.Spec.Service == nil || l.Spec.Service.Forward == 0 {
		return ""
	}
	return fmt.Sprintf("http://localhost:%d", l.Spec.Service.Forward)
}

// TokenFile is the file with the operator token of the server.
func (l *Lab) TokenFile() string { return l.state.tokenFile(l.Spec.Service) }
