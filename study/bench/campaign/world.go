package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"pillion.dev/internal/netns"
)

// Ports of the server in its namespace; agents get certificates through the proxy.
const (
	httpPort  = 8470
	busPort   = 8471
	proxyPort = 8460
	omlPort   = 3003
)

// validity of agents' certificates: short, so that they are renewed during the
// campaign. Renewal begins after two thirds of it, and is tried ten times during the
// last third: an agent without a certificate then has to be enrolled by hand, which is no
// defect, so the last third has to be much longer than faults are.
func (s *settings) validity() time.Duration {
	return min(max(time.Duration(s.seconds)*time.Second*3/2, 90*time.Second), 6*time.Minute)
}

// lostAnswers is the share of answers to enrolments and renewals that are lost.
const lostAnswers = 0.25

// world is a server, agents and applications, each host in its own namespace with its own
// disk.
type world struct {
	settings settings
	folder   string
	server   *host
	agents   []*host
	proxy    *proxy
	ledger   *ledger
	draws    []*rand.Rand // of the faults, by lane
	cancel   context.CancelFunc
}

// host has a program of Pillion and an application that reports to it.
type host struct {
	name, namespace string
	// link is the end of its link that the server's namespace has, address its own.
	link, address string
	disk          *disk
	program       *program
	application   *program
}

const prefix = "campaign"

func newWorld(s settings) (*world, error) {
	if err := netns.DeleteStale(prefix); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	w := &world{settings: s, folder: folder, ledger: newLedger()}
	for lane := range lanes {
		w.draws = append(w.draws, rand.New(rand.NewPCG(s.seed, uint64(100+lane))))
	}
	for _, name := range []string{"disks", "mounts", "logs"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o711); err != nil {
			return w, err
		}
	}
	if err := os.Chmod(folder, 0o711); err != nil { // agents give up root
		return w, err
	}
	config := fmt.Sprintf("agent_certificates: %v\n", s.validity())
	if err := os.WriteFile(filepath.Join(folder, "server.yaml"), []byte(config), 0o600); err != nil {
		return w, err
	}
	if w.server, err = w.newHost("server", 0); err != nil {
		return w, err
	}
	for i := range s.agents {
		h, err := w.newHost(fmt.Sprintf("agent-%d", i+1), i+1)
		if err != nil {
			return w, err
		}
		w.agents = append(w.agents, h)
		h.link = fmt.Sprintf("to-%d", i+1)
		h.address = fmt.Sprintf("10.123.%d.1", i+1) // of the server, as this host sees it
		if err := netns.IP(w.server.namespace,
			fmt.Sprintf("link add %s type veth peer name net0 netns %s", h.link, h.namespace),
			fmt.Sprintf("address add %s/24 dev %s", h.address, h.link),
			fmt.Sprintf("link set %s up", h.link)); err != nil {
			return w, err
		}
		if err := netns.IP(h.namespace, fmt.Sprintf("address add 10.123.%d.2/24 dev net0", i+1), "link set net0 up"); err != nil {
			return w, err
		}
	}
	return w, nil
}

func (w *world) newHost(name string, number int) (*host, error) {
	h := &host{name: name, namespace: fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), name)}
	if err := netns.Create(h.namespace); err != nil {
		return nil, err
	}
	if err := netns.IP(h.namespace, "link set lo up"); err != nil {
		return nil, err
	}
	var err error
	h.disk, err = mountDisk(filepath.Join(w.folder, "disks", name), filepath.Join(w.folder, "mounts", name), w.settings.seed+uint64(number))
	return h, err
}

// start starts all programs and returns when every application's first row is stored.
func (w *world) start(ctx context.Context) error {
	ctx, w.cancel = context.WithCancel(ctx)
	bin := func(name string) string { return filepath.Join(w.settings.bin, name) }
	var err error
	if w.proxy, err = startProxy(w.server.namespace, fmt.Sprintf(":%d", proxyPort), fmt.Sprintf("127.0.0.1:%d", httpPort), lostAnswers, w.settings.seed); err != nil {
		return err
	}
	w.server.program = w.newProgram(w.server, "server", func(int) []string {
		return []string{bin("pillion-server"), "run", "--config", filepath.Join(w.folder, "server.yaml"), "--data", w.data(),
			"--http", fmt.Sprintf(":%d", httpPort), "--nats-listen", fmt.Sprintf(":%d", busPort)}
	})
	w.server.program.start(ctx)
	token := filepath.Join(w.server.disk.Folder, dataFolder, "join.token")
	if err := until(ctx, time.Minute, func() error { _, err := os.Stat(token); return err }); err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	for _, h := range w.agents {
		h.program = w.newProgram(h, h.name, func(int) []string {
			return []string{bin("pillion-agent"), "run", "--server", fmt.Sprintf("%s:%d", h.address, proxyPort), "--name", h.name,
				"--token-file", token, "--data", h.disk.Mount, "--path-validation", "off", "--interval", "1s"}
		})
		h.program.start(ctx)
	}
	for _, h := range w.hosts() {
		w.startApplication(ctx, h)
	}
	return until(ctx, 2*time.Minute, func() error { return w.check(ctx, 1) })
}

// dataFolder is the server's data directory on its disk.
const dataFolder = "data"

func (w *world) data() string { return filepath.Join(w.server.disk.Mount, dataFolder) }

func (w *world) hosts() []*host { return append([]*host{w.server}, w.agents...) }

func (w *world) newProgram(h *host, name string, command func(int) []string) *program {
	return &program{name: name, namespace: h.namespace, logs: filepath.Join(w.folder, "logs"), command: command}
}

// startApplication starts an application that reports to the program of its host. Each of
// its runs has its own account.
func (w *world) startApplication(ctx context.Context, h *host) {
	self, _ := os.Executable() // fails only without /proc, which namespaces require
	run := func(n int) string { return fmt.Sprintf("%s-%d", h.name, n) }
	p := w.newProgram(h, "application-of-"+h.name, func(n int) []string {
		return []string{"env", senderVariable + "=" + run(n), fmt.Sprintf("%s=127.0.0.1:%d", addressVariable, omlPort), self}
	})
	p.told = func(n int, line *string) {
		if line == nil {
			return
		}
		var a account
		if _, err := fmt.Sscan(*line, &a.sent, &a.stored, &a.complete); err == nil {
			w.ledger.set(run(n), a)
		}
	}
	h.application = p
	p.start(ctx)
}

// until repeats f until it succeeds; after some time it returns its error.
func until(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("within %v: %w", limit, err)
		case <-time.After(time.Second):
		}
	}
}

// query asks the archive.
func (w *world) query(ctx context.Context, sql string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, filepath.Join(w.settings.bin, "pillion"), "--token-file", filepath.Join(w.server.disk.Folder, dataFolder, "admin.token"), "query", "-o", "json", sql)
	command.Env = append(os.Environ(), "HOME="+w.folder, "NO_COLOR=1")
	var output, said strings.Builder
	command.Stdout, command.Stderr = &output, &said
	if err := netns.Do(w.server.namespace, command.Start); err != nil {
		return nil, err
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("query %q: %w: %s", sql, err, said.String())
	}
	return []byte(output.String()), nil
}

// close ends everything; the folder stays if keep.
func (w *world) close(keep bool) {
	if w.cancel != nil {
		w.cancel()
	}
	for _, h := range w.hosts() {
		if h == nil {
			continue
		}
		for _, p := range []*program{h.application, h.program} {
			if p != nil {
				p.hold(true)
				<-p.ended
			}
		}
		if h.disk != nil {
			_ = h.disk.unmount() // nothing depends on it any more
		}
		_ = netns.Delete(h.namespace) // or the next campaign does
	}
	if w.proxy != nil {
		_ = w.proxy.listener.Close()
	}
	if !keep {
		_ = os.RemoveAll(w.folder) // a temporary folder
	}
}
