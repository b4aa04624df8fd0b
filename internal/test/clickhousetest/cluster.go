package clickhousetest

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pillion.dev/internal/clickhouse"
	"pillion.dev/internal/free"
)

// Cluster is a number of shards with replicas each.
type Cluster struct {
	// Nodes by shard and replica.
	Nodes [][]*Process
	// Coordination is ZooKeeper; nil of a single node.
	Coordination *Process

	config clickhouse.Cluster
}

// Start starts a single server.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return start(t, 1, 1, false)
}

// StartCluster starts a cluster and its coordination service.
func StartCluster(t testing.TB, shards, replicas int) *Cluster {
	t.Helper()
	return start(t, shards, replicas, true)
}

func start(t testing.TB, shards, replicas int, coordinated bool) *Cluster {
	t.Helper()
	find(t, "clickhouse-server")
	folder := t.TempDir()
	c := &Cluster{}
	t.Cleanup(func() {
		for _, p := range c.all() {
			p.Kill()
		}
	})
	if coordinated {
		c.config.Coordination = address(t)
	}
	for range shards {
		var nodes []clickhouse.Node
		for range replicas {
			nodes = append(nodes, clickhouse.Node{Address: address(t), HTTP: uint16(free.Port(t)), Interserver: uint16(free.Port(t))})
		}
		c.config.Shards = append(c.config.Shards, nodes)
	}
	if coordinated {
		c.coordinate(t, filepath.Join(folder, "zookeeper"))
	}
	for i, replicas := range c.config.Shards {
		var nodes []*Process
		for j, node := range replicas {
			folder := filepath.Join(folder, fmt.Sprintf("node%d-%d", i+1, j+1))
			command, err := c.config.WriteNode(folder, i, j)
			if err != nil {
				t.Fatal(err)
			}
			nodes = append(nodes, &Process{Address: node.Address.String(), t: t, folder: folder, command: command})
		}
		c.Nodes = append(c.Nodes, nodes)
	}
	all := c.all()
	if coordinated { // servers started before it fall back to a slow retry
		all[0].launch()
		all[0].Ready()
		all = all[1:]
	}
	for _, p := range all {
		p.launch()
	}
	for _, p := range all {
		p.Ready()
	}
	return c
}

// address is one of loopback with a free port.
func address(t testing.TB) netip.AddrPort {
	t.Helper()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(free.Port(t)))
}

// find skips the test if a program is not installed, except in CI, which is root.
func find(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	if os.Geteuid() != 0 {
		t.Skipf("%s is not installed; .ci/install test installs it", program)
	}
	t.Fatalf("%s is not installed; .ci/install test installs it", program)
}

// all processes, the coordination service first.
func (c *Cluster) all() (list []*Process) {
	if c.Coordination != nil {
		list = append(list, c.Coordination)
	}
	for _, nodes := range c.Nodes {
		list = append(list, nodes...)
	}
	return list
}

// URL of the archive in a database.
func (c *Cluster) URL(database string) string { return c.config.URL(database) }

// coordinate prepares ZooKeeper.
func (c *Cluster) coordinate(t testing.TB, folder string) {
	t.Helper()
	find(t, "java")
	command, err := c.config.WriteCoordination(folder)
	if err != nil {
		t.Fatal(err)
	}
	c.Coordination = &Process{Address: c.config.Coordination.String(), t: t, folder: folder, command: command, ready: clickhouse.Coordinates}
}
