package bustest

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pillion.dev/bus"
	"pillion.dev/internal/free"
)

// Leaf is the NATS server of a site, a process.
type Leaf struct {
	// URL of the leaf, for agents.
	URL string

	t       testing.TB
	cluster *Cluster
	node    *node
	own     tls.Certificate
}

// StartLeaf starts a leaf of a cluster of StartCallout, as pillion-server nats configures it; it
// may speak for these agents, or for all. It ends with the test.
func (c *Cluster) StartLeaf(name string, agents ...string) *Leaf {
	c.t.Helper()
	folder := c.t.TempDir()
	writeFiles(c.t, c.Authority, folder, issueNode(c.t, c.Authority, bus.LeafName(name), agents...))
	address, monitor := free.Address(c.t), free.Address(c.t)
	leaf := bus.Leaf{Name: name, Listen: address, Hubs: c.Leaves, Folder: folder, Secret: c.secret}
	text, err := leaf.Config()
	if err != nil {
		c.t.Fatal(err)
	}
	n := &node{name: name, config: filepath.Join(folder, "nats.conf"), monitor: "http://" + monitor}
	if err := os.WriteFile(n.config, fmt.Appendf(nil, "http: %q\n%s", monitor, text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(folder, bus.NodeFile), filepath.Join(folder, bus.NodeFile))
	if err != nil {
		c.t.Fatal(err)
	}
	l := &Leaf{URL: "tls://" + address, t: c.t, cluster: c, node: n, own: own}
	c.t.Cleanup(func() { n.stop(c.t) })
	n.start(c.t)
	within(c.t, "the leaf is connected to a hub", func() bool { return l.Hub() >= 0 })
	return l
}

// Certificate is the leaf's certificate with its key: what an intruder on the leaf's host has.
func (l *Leaf) Certificate() tls.Certificate { return l.own }

// NodeFile has the certificate and key of a hub, of a cluster of StartCallout.
func (c *Cluster) NodeFile() string {
	return filepath.Join(strings.TrimSuffix(c.nodes[0].config, ".conf"), bus.NodeFile)
}

// Kill ends the leaf with SIGKILL.
func (l *Leaf) Kill() {
	l.t.Helper()
	l.node.kill(l.t)
}

// Restart starts the leaf again, on the same files.
func (l *Leaf) Restart() {
	l.t.Helper()
	l.node.start(l.t)
}

// Hub is the number of the node to which the leaf is connected; -1: none.
func (l *Leaf) Hub() int {
	answer, err := http.Get(l.node.monitor + "/leafz")
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	var links struct {
		Leafs []struct {
			Name string `json:"name"`
		} `json:"leafs"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&links); err != nil || len(links.Leafs) != 1 {
		return -1
	}
	return slices.IndexFunc(l.cluster.nodes[:], func(n *node) bool { return n.name == links.Leafs[0].Name })
}
