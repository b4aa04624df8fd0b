// Package bustest runs NATS clusters for tests: real processes of nats-server with JetStream,
// which tests kill and restart.
package bustest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/test/free"
)

// Nodes of a cluster.
const Nodes = 3

// Cluster is three nats-server processes.
type Cluster struct {
	// URLs of the nodes, for clients, in their order.
	URLs []string
	// Authority is the folder with the keys that sign the certificates: that of a pillion-server.
	Authority string

	t     testing.TB
	nodes [Nodes]*node
}

// node is one process, which may be restarted on the same files.
type node struct {
	config  string
	monitor string // URL of its HTTP port
	command *exec.Cmd
	log     *journal
}

const patience = 30 * time.Second

// Start starts a cluster with the permissions that docs/server.md shows, for these agents. Its
// nodes have certificates of the authority in the folder of a server, which is created if there
// is none. It ends with the test.
func Start(t testing.TB, folder string, agents ...string) *Cluster {
	t.Helper()
	return start(t, folder, documentedPermissions(t, agents))
}

// StartLanes starts a cluster that also divides the agents into lanes.
func StartLanes(t testing.TB, folder string, agents ...string) *Cluster {
	t.Helper()
	return start(t, folder, fmt.Sprintf("mappings: { %q: %q }\n", bus.LaneMapping[0], bus.LaneMapping[1])+documentedPermissions(t, agents))
}

// StartCallout starts a cluster as pillion-server nats configures it, which asks servers with
// that secret which agents may connect.
func StartCallout(t testing.TB, folder string, secret []byte) *Cluster {
	t.Helper()
	makeAuthority(t, folder)
	certificate, err := os.ReadFile(issueNode(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	return run(t, folder, func(n place) string {
		err := errors.Join(
			os.MkdirAll(n.store, 0o700),
			os.WriteFile(filepath.Join(n.store, bus.NodeFile), certificate, 0o600),
			os.WriteFile(filepath.Join(n.store, bus.AuthorityFile), own, 0o600))
		hub := bus.Hub{Name: n.name, Listen: n.listen, ClusterListen: n.cluster, Routes: n.routes, Folder: n.store, Secret: secret}
		text, failed := hub.Config()
		if err := errors.Join(err, failed); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("http: %q\n%s", n.monitor, text)
	})
}

func start(t testing.TB, folder, permissions string) *Cluster {
	t.Helper()
	makeAuthority(t, folder)
	certificate := issueNode(t, folder)
	return run(t, folder, func(n place) string {
		return fmt.Sprintf(`
server_name: %s
listen: %q
http: %q
max_payload: 8388608
jetstream { store_dir: %q }
tls { cert_file: %q, key_file: %q, ca_file: %q, verify_and_map: true }
cluster { name: test, listen: %q, routes: ["nats://%s"] }
%s`, n.name, n.listen, n.monitor, n.store, certificate, certificate, filepath.Join(folder, "ca.crt"), n.cluster, strings.Join(n.routes, `", "nats://`), permissions)
	})
}

// place is where a node runs.
type place struct {
	name, listen, cluster, monitor, store string
	routes                                []string
}

// run starts the nodes, with the text of their configurations.
func run(t testing.TB, folder string, config func(place) string) *Cluster {
	t.Helper()
	var addresses []string
	for range 3 * Nodes {
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", free.Port(t)))
	}
	c := &Cluster{Authority: folder, t: t}
	files := t.TempDir()
	for i := range Nodes {
		n := place{
			name: fmt.Sprintf("n%d", i), listen: addresses[i], cluster: addresses[Nodes+i], monitor: addresses[2*Nodes+i],
			routes: addresses[Nodes : 2*Nodes],
		}
		n.store = filepath.Join(files, n.name)
		path := filepath.Join(files, n.name+".conf")
		if err := os.WriteFile(path, []byte(config(n)), 0o600); err != nil {
			t.Fatal(err)
		}
		c.nodes[i] = &node{config: path, monitor: "http://" + n.monitor}
		c.URLs = append(c.URLs, "tls://"+n.listen)
	}
	t.Cleanup(c.stop) // before the folders of the processes are removed
	for i := range Nodes {
		c.Restart(i)
	}
	c.Settle()
	return c
}

// Settle waits until all nodes run, have found each other, and have the same data.
func (c *Cluster) Settle() {
	c.t.Helper()
	for i, n := range c.nodes {
		within(c.t, fmt.Sprintf("node %d is healthy", i), func() bool {
			answer, err := http.Get(n.monitor + "/healthz")
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
}

// URL is that of all nodes, for clients.
func (c *Cluster) URL() string { return strings.Join(c.URLs, ",") }

// Kill ends a node with SIGKILL.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	n := c.nodes[i]
	if n.command == nil {
		c.t.Fatalf("node %d does not run", i)
	}
	if err := n.command.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = n.command.Wait() // killed
	n.command = nil
}

// Restart starts a node that was killed, on the same files, and waits until clients can connect.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	n := c.nodes[i]
	if n.command != nil {
		c.t.Fatalf("node %d runs", i)
	}
	n.log = &journal{}
	command := exec.Command(program(c.t), "-c", n.config)
	command.Stderr = n.log
	// Nodes end with the test, even if it is killed.
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		c.t.Fatal(err)
	}
	n.command = command
	within(c.t, fmt.Sprintf("node %d is ready", i), func() bool { return strings.Contains(n.log.String(), "Server is ready") })
}

// stop kills all nodes.
func (c *Cluster) stop() {
	for i, n := range c.nodes {
		if n.command != nil {
			c.Kill(i)
		}
		if c.t.Failed() && n.log != nil {
			c.t.Logf("%s: %s", n.config, n.log)
		}
	}
}

// program is the path of nats-server in the version of go.mod: the go command builds it once
// and keeps it in its cache.
func program(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(func() (string, error) {
	path, err := exec.Command("go", "tool", "-n", "nats-server").Output()
	if err != nil {
		return "", fmt.Errorf("build nats-server: %w", err)
	}
	return strings.TrimSpace(string(path)), nil
})

func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(patience); !holds(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// journal is a process's log.
type journal struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write adds to the log.
func (j *journal) Write(b []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.Write(b)
}

// String is the log so far.
func (j *journal) String() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.text.String()
}
