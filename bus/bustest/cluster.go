// Package bustest runs NATS clusters for tests: real processes of nats-server with JetStream,
// which tests kill and restart.
package bustest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/free"
	"pillion.dev/internal/test/hang"
)

// Nodes of a cluster.
const Nodes = 3

// Cluster is three nats-server processes.
type Cluster struct {
	// URLs of the nodes, for clients, in their order.
	URLs []string
	// Authority is a pillion-server's folder with the keys that sign the certificates.
	Authority string
	// Routes are host:port where the nodes accept each other, Leaves where they accept leaves, of a
	// cluster of StartCallout.
	Routes, Leaves []string

	t      testing.TB
	nodes  [Nodes]*node
	secret []byte
}

const patience = hang.Limit

// Start starts a cluster with the permissions that docs/howto/nats.md shows, for these agents. Its
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
	c := run(t, folder, func(n place) string {
		writeFiles(t, folder, n.store, issueNode(t, folder, bus.NodeName))
		hub := bus.Hub{
			Name: n.name, Listen: n.listen, ClusterListen: n.cluster, LeafListen: n.leaf, Routes: n.routes, Folder: n.store, Secret: secret,
		}
		text, err := hub.Config()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("http: %q\n%s", n.monitor, text)
	})
	c.secret = secret
	return c
}

func start(t testing.TB, folder, permissions string) *Cluster {
	t.Helper()
	makeAuthority(t, folder)
	certificate := issueNode(t, folder, bus.NodeName)
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
	name, listen, cluster, leaf, monitor, store string
	routes                                      []string
}

// run starts the nodes, with the text of their configurations.
func run(t testing.TB, folder string, config func(place) string) *Cluster {
	t.Helper()
	var addresses []string
	for range 4 * Nodes {
		addresses = append(addresses, free.Address(t))
	}
	c := &Cluster{Authority: folder, t: t, Routes: addresses[Nodes : 2*Nodes], Leaves: addresses[3*Nodes:]}
	files := t.TempDir()
	for i := range Nodes {
		n := place{
			name: fmt.Sprintf("n%d", i), listen: addresses[i], cluster: addresses[Nodes+i], monitor: addresses[2*Nodes+i],
			routes: addresses[Nodes : 2*Nodes], leaf: addresses[3*Nodes+i],
		}
		n.store = filepath.Join(files, n.name)
		path := filepath.Join(files, n.name+".conf")
		if err := os.WriteFile(path, []byte(config(n)), 0o600); err != nil {
			t.Fatal(err)
		}
		c.nodes[i] = &node{name: n.name, config: path, monitor: "http://" + n.monitor}
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

// Log is what the nodes have said since they were started.
func (c *Cluster) Log() string {
	var all strings.Builder
	for _, n := range c.nodes {
		all.WriteString(n.log.String())
	}
	return all.String()
}

// URL is the list of all nodes' URLs, for clients.
func (c *Cluster) URL() string { return strings.Join(c.URLs, ",") }

// Kill ends a node with SIGKILL.
func (c *Cluster) Kill(i int) {
	c.t.Helper()
	c.nodes[i].kill(c.t)
}

// Restart starts a node that was killed, on the same files, and waits until clients can connect.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	c.nodes[i].start(c.t)
}

// stop kills all nodes.
func (c *Cluster) stop() {
	for _, n := range c.nodes {
		n.stop(c.t)
	}
}

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
