package server_test

import (
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"pillion.dev/api/pillionv1"
	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
	"pillion.dev/measure"
	"pillion.dev/server"
	"pillion.dev/server/authority"
)

// TestCallout: a cluster that lists no agents asks the server. An agent may use its own subjects
// only; a revoked one is disconnected, and refused when it connects again.
func TestCallout(t *testing.T) {
	folder := t.TempDir()
	keys, err := authority.OpenKeys(folder, authority.Options{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := keys.BusSecret()
	if err != nil {
		t.Fatal(err)
	}
	c := bustest.StartCallout(t, folder, secret)
	s := startWith(t, folder, server.Config{NATS: c.URL()})
	admin := s.client(t, s.operator)
	northTLS, southTLS := s.enrol(t, "north"), s.enrol(t, "south")
	dial := func(name string, config *tls.Config) (*bus.Agent, chan error) {
		reasons := make(chan error, 100)
		agent, err := bus.ConnectAgent(t.Context(), bus.AgentOptions{
			URL: c.URL(), TLS: config, Name: name, Changed: func(_ bool, reason error) { reasons <- reason },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(agent.Close)
		return agent, reasons
	}
	north, _ := dial("north", northTLS)
	south, _ := dial("south", southTLS)
	forger, _ := dial("south", northTLS)
	within(t, "the agents are connected", func() bool { return north.Connected() && south.Connected() && forger.Connected() })
	batch := func(sequence uint64) measure.Envelope {
		return batchOf(t, &numbers, sequence, measure.Sample{
			measure.TimeValue(time.Now()), measure.Int64Value(int64(sequence)), measure.StringValue("word"),
		})
	}
	if err := errors.Join(north.Send(t.Context(), batch(1)), south.Send(t.Context(), batch(1))); err != nil {
		t.Fatal(err)
	}
	if n := number(t, admin, "SELECT count(*) FROM numbers WHERE agent = 'south'"); n != 1 {
		t.Errorf("%d rows of south", n)
	}
	if _, err := admin.Agents.RevokeAgent(t.Context(), &pillionv1.RevokeAgentRequest{Name: "north"}); err != nil {
		t.Fatal(err)
	}
	within(t, "the revoked agent is disconnected", func() bool { return !north.Connected() && !forger.Connected() })
	again, reasons := dial("north", northTLS)
	within(t, "it is refused", func() bool {
		select {
		case reason := <-reasons:
			return errors.Is(reason, bus.ErrRefused)
		default:
			return false
		}
	})
	if again.Connected() || north.Connected() {
		t.Error("the revoked agent is connected")
	}
	if err := south.Send(t.Context(), batch(2)); err != nil {
		t.Errorf("another agent: %v", err)
	}
	if n := number(t, admin, "SELECT count(*) FROM numbers"); n != 3 {
		t.Errorf("%d rows, want those of three batches", n)
	}
}
