package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
	"pillion.dev/server"
	"pillion.dev/server/authority"
)

// TestRevocationWithACluster: a NATS cluster knows nothing of revocation. It goes on accepting
// the certificate of a revoked agent, on every node, but the server takes no batch of that
// agent, and none that it sends in the name of another; also after a node has failed.
func TestRevocationWithACluster(t *testing.T) {
	folder := t.TempDir()
	if _, _, err := authority.Open(folder, authority.Options{}); err != nil {
		t.Fatal(err)
	}
	c := bustest.Start(t, folder, "north", "south")
	s := startWith(t, folder, server.Config{NATS: strings.Join(c.URLs[:2], ",")})
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
	north, south, forger := dial(c.URLs[1], "north", northTLS), dial(c.URLs[2], "south", southTLS), dial(c.URLs[2], "south", northTLS)
	within(t, "the agents are connected", func() bool { return north.Connected() && south.Connected() && forger.Connected() })
	sequence := uint64(0)
	sendWithin := func(limit time.Duration, agent *bus.Agent) error {
		sequence++
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		return agent.Send(ctx, batchOf(t, &numbers, sequence, measure.Sample{
			measure.TimeValue(time.Now()), measure.Int64Value(int64(sequence)), measure.StringValue("word"),
		}))
	}
	send := func(agent *bus.Agent) error { return sendWithin(hang.Limit, agent) }
	if err := errors.Join(send(north), send(south)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Agents.RevokeAgent(t.Context(), &pillionv1.RevokeAgentRequest{Name: "north"}); err != nil {
		t.Fatal(err)
	}
	again := dial(c.URLs[2], "north", northTLS)
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
	c.Kill(0)
	// A batch that was on its way to the node is lost: an agent sends it again when it has waited.
	within(t, "batches arrive by the other nodes", func() bool { return sendWithin(2*time.Second, south) == nil })
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
	c := bustest.Start(t, folder, "north")
	s := startWith(t, folder, server.Config{NATS: strings.Join(c.URLs, ",")})
	agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{URL: strings.Join(c.URLs, ","), TLS: s.enrol(t, "north"), Name: "north"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(agent.Close)
	within(t, "the agent is connected", agent.Connected)
	first := agent.Remote()
	i := slices.Index(c.URLs, "tls://"+first)
	if i < 0 {
		t.Fatalf("the agent is connected to %s, which is none of %v", first, c.URLs)
	}
	c.Kill(i)
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
