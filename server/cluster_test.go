package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/bus"
	"pillion.dev/internal/test/free"
	"pillion.dev/measure"
	"pillion.dev/server/authority"
)

// cluster is three nats-server processes with the permissions that docs/server.md shows.
type cluster struct {
	urls  []string // of clients
	nodes []*exec.Cmd
}

// TestRevocationWithACluster: a NATS cluster knows nothing of revocation. It goes on accepting
// the certificate of a revoked agent, on every node, but the server takes no batch of that
// agent, and none that it sends in the name of another; also after a node has failed.
func TestRevocationWithACluster(t *testing.T) {
	folder := t.TempDir()
	if _, _, err := authority.Open(folder, authority.Options{}); err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, folder, "north", "south")
	s := startWith(t, folder, strings.Join(c.urls[:2], ","))
	admin := s.client(t, s.operator)
	northTLS, southTLS := s.enrol(t, "north"), s.enrol(t, "south")
	dial := func(url, name string, config *tls.Config) *bus.Agent {
		agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{URL: url, TLS: config, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(agent.Close)
		return agent
	}
	// The forger says that it is another agent.
	north, south, forger := dial(c.urls[1], "north", northTLS), dial(c.urls[2], "south", southTLS), dial(c.urls[2], "south", northTLS)
	within(t, "the agents are connected", func() bool { return north.Connected() && south.Connected() && forger.Connected() })
	sequence := uint64(0)
	send := func(agent *bus.Agent) error {
		sequence++
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return agent.Send(ctx, batchOf(t, &numbers, sequence, measure.Sample{
			measure.TimeValue(time.Now()), measure.Int64Value(int64(sequence)), measure.StringValue("word"),
		}))
	}
	if err := errors.Join(send(north), send(south)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Agents.RevokeAgent(t.Context(), &pillionv1.RevokeAgentRequest{Name: "north"}); err != nil {
		t.Fatal(err)
	}
	again := dial(c.urls[2], "north", northTLS)
	within(t, "the cluster accepts the certificate again", again.Connected)
	refused := func() {
		t.Helper()
		for _, agent := range []*bus.Agent{north, again} {
			if err := send(agent); !errors.Is(err, bus.ErrRefused) || !strings.Contains(err.Error(), "revoked") || !agent.Connected() {
				t.Errorf("a batch of the revoked agent: %v, connected: %v", err, agent.Connected())
			}
		}
	}
	refused()
	if err := send(south); err != nil {
		t.Errorf("another agent: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := forger.Send(ctx, batchOf(t, &numbers, 1000, measure.Sample{
		measure.TimeValue(time.Now()), measure.Int64Value(1000), measure.StringValue("forged"),
	})); err == nil {
		t.Error("a batch in the name of another agent is stored")
	}
	if _, err := admin.Agents.DeleteAgent(t.Context(), &pillionv1.DeleteAgentRequest{Name: "north"}); err != nil {
		t.Fatal(err)
	}
	if err := send(north); !errors.Is(err, bus.ErrRefused) {
		t.Errorf("a batch of the deleted agent: %v", err)
	}
	// The server, or one of the agents, moves to another node.
	if err := c.nodes[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	within(t, "batches arrive by the other nodes", func() bool { return send(south) == nil })
	if err := send(north); !errors.Is(err, bus.ErrRefused) {
		t.Errorf("a batch of the deleted agent after a node failed: %v", err)
	}
	if n := number(t, admin, "SELECT count(*) FROM numbers WHERE agent = 'north'"); n != 1 {
		t.Errorf("%d rows of the revoked agent are stored, want the one from before", n)
	}
	if n := number(t, admin, "SELECT count(*) FROM numbers WHERE word = 'forged'"); n != 0 {
		t.Errorf("%d forged rows are stored", n)
	}
}

// TestAgentOfACluster: an agent that knows all nodes of a cluster moves to another when its node fails.
func TestAgentOfACluster(t *testing.T) {
	folder := t.TempDir()
	if _, _, err := authority.Open(folder, authority.Options{}); err != nil {
		t.Fatal(err)
	}
	c := startCluster(t, folder, "north")
	s := startWith(t, folder, strings.Join(c.urls, ","))
	agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{URL: strings.Join(c.urls, ","), TLS: s.enrol(t, "north"), Name: "north"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	within(t, "the agent is connected", agent.Connected)
	first := agent.Remote()
	i := slices.Index(c.urls, "tls://"+first)
	if i < 0 {
		t.Fatalf("the agent is connected to %s, which is none of %v", first, c.urls)
	}
	if err := c.nodes[i].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	sequence := uint64(0)
	within(t, "a batch is stored by another node", func() bool {
		sequence++
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return agent.Send(ctx, batchOf(t, &numbers, sequence, measure.Sample{
			measure.TimeValue(time.Now()), measure.Int64Value(int64(sequence)), measure.StringValue("word"),
		})) == nil
	})
	if now := agent.Remote(); now == first {
		t.Errorf("the agent is still connected to %s", now)
	}
}

// startCluster starts a cluster whose nodes have certificates of the authority in a server's
// folder.
func startCluster(t *testing.T, folder string, agents ...string) *cluster {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "nats-server")
	if said, err := exec.Command("go", "build", "-o", bin, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	certificate := issueNode(t, folder)
	permissions := documentedPermissions(t, agents)
	var ports []int
	for range 6 {
		ports = append(ports, free.Port(t))
	}
	var routes []string
	for _, port := range ports[3:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", port))
	}
	c := &cluster{}
	for i := range 3 {
		config := fmt.Sprintf(`
server_name: n%d
listen: "127.0.0.1:%d"
max_payload: 8388608
tls { cert_file: %q, key_file: %q, ca_file: %q, verify_and_map: true }
cluster { name: test, listen: "127.0.0.1:%d", routes: ["%s"] }
%s`, i, ports[i], certificate, certificate, filepath.Join(folder, "ca.crt"), ports[3+i], strings.Join(routes, `", "`), permissions)
		path := filepath.Join(filepath.Dir(bin), fmt.Sprintf("n%d.conf", i))
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		log := &journal{}
		node := exec.Command(bin, "-c", path)
		node.Stderr = log
		if err := node.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = node.Process.Kill()
			_ = node.Wait() // killed
			if t.Failed() {
				t.Logf("%s: %s", path, log)
			}
		})
		c.nodes, c.urls = append(c.nodes, node), append(c.urls, fmt.Sprintf("tls://127.0.0.1:%d", ports[i]))
		within(t, "a node is ready", func() bool { return strings.Contains(log.String(), "Server is ready") })
		if i == 2 {
			within(t, "the nodes have found each other", func() bool { return strings.Count(log.String(), "Route connection created") >= 2 })
		}
	}
	return c
}

// documentedPermissions are those in the documentation, for these agents.
func documentedPermissions(t *testing.T, agents []string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(authorization .*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/server.md shows no permissions")
	}
	entry := regexp.MustCompile(`(?s)  \{ user: "CN=north".*?\} \}\n`)
	shown := string(entry.Find(block[1]))
	if shown == "" {
		t.Fatal("docs/server.md shows no permissions of an agent")
	}
	var all string
	for _, agent := range agents {
		all += strings.ReplaceAll(shown, "north", agent)
	}
	return entry.ReplaceAllString(string(block[1]), all)
}

// issueNode writes the certificate and key of the nodes and returns the file.
func issueNode(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "authority", "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	var own *x509.Certificate
	var key any
	for block, rest := pem.Decode(text); block != nil && err == nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			own, err = x509.ParseCertificate(block.Bytes)
		} else {
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	nodeKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "nats"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, own, nodeKey.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(nodeKey)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "node.pem")
	node := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(path, node, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
