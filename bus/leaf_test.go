package bus_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pillion.dev/bus"
	"pillion.dev/bus/bustest"
	"pillion.dev/measure"
)

// site is a cluster that asks, one server that stores nothing, and a leaf.
type site struct {
	t       *testing.T
	cluster *bustest.Cluster
	leaf    *bustest.Leaf
	server  *bus.Server

	mu     sync.Mutex
	stored map[string]int // deliveries by agent and sequence
	states map[string]string
}

func startSite(t *testing.T, agents ...string) *site {
	t.Helper()
	secret := []byte("secret")
	s := &site{t: t, cluster: bustest.StartCallout(t, t.TempDir(), secret), stored: map[string]int{}, states: map[string]string{}}
	callout, err := bus.ServeCallout(t.Context(), bus.CalloutOptions{
		URL: s.cluster.URL(), TLS: s.cluster.TLS(bus.CalloutName), System: s.cluster.TLS(bus.SystemName), Secret: secret,
		Authorize: func(state tls.ConnectionState) (string, error) {
			return state.PeerCertificates[0].Subject.CommonName, nil
		},
		Leaf: ofLeaf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(callout.Close)
	s.server = connect(t, s.cluster)
	err = s.server.ServeStates(func(agent string, state []byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.states[agent] = string(state)
	})
	err = errors.Join(err, s.server.ServeLanes(func(d bus.Delivery) {
		s.mu.Lock()
		s.stored[fmt.Sprint(d.Agent, " ", d.Sequence)]++
		s.mu.Unlock()
		d.Answer(nil)
	}))
	for lane := range bus.Lanes {
		err = errors.Join(err, s.server.OpenLane(lane))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.leaf = s.cluster.StartLeaf("paris", agents...)
	return s
}

// ofLeaf reads the certificate as the servers' authority does.
func ofLeaf(state tls.ConnectionState) (agents []string, err error) {
	for _, uri := range state.PeerCertificates[0].URIs {
		agents = append(agents, strings.TrimPrefix(uri.String(), "urn:pillion:agent:"))
	}
	if agents == nil {
		agents = []string{bus.AnyAgent}
	}
	return agents, nil
}

func (s *site) agent(name string, urls ...string) *bus.Agent {
	s.t.Helper()
	a, err := bus.ConnectAgent(s.t.Context(), bus.AgentOptions{URL: strings.Join(urls, ","), InOrder: true, TLS: s.cluster.TLS(name), Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(a.Close)
	return a
}

// sends returns whether a batch is acknowledged.
func (s *site) sends(a *bus.Agent, sequence uint64) bool {
	if !a.Connected() {
		return false
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
	defer cancel()
	payload := []byte("payload")
	return a.Send(ctx, measure.Envelope{
		Key: measure.Key{Stream: "numbers", Epoch: 7, Sequence: sequence}, Rows: 1, Checksum: measure.Checksum(payload), Payload: payload,
	}) == nil
}

func (s *site) deliveries(agent string, sequence uint64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored[fmt.Sprint(agent, " ", sequence)]
}

// TestLeaf: agents work through a leaf as at a hub, whichever hub it is connected to; without the
// leaf they go to a hub.
func TestLeaf(t *testing.T) {
	s := startSite(t, "north", "south")
	north := s.agent("north", append([]string{s.leaf.URL}, s.cluster.URLs...)...)
	pulses := make(chan string, 10)
	if err := errors.Join(north.Pulse(func(pulse []byte) { pulses <- string(pulse) }),
		north.Serve(func(_ context.Context, request []byte) ([]byte, error) {
			return append([]byte("re: "), request...), nil
		})); err != nil {
		t.Fatal(err)
	}
	atLeaf := func() bool { return north.Connected() && "tls://"+north.Remote() == s.leaf.URL }
	works := func(sequence uint64) {
		t.Helper()
		eventually(t, "a batch is acknowledged", func() bool { return s.sends(north, sequence) })
		eventually(t, "the agent answers", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			answer, err := s.server.Ask(ctx, "north", []byte("request"))
			return err == nil && string(answer) == "re: request"
		})
		eventually(t, "the agent's state is heard", func() bool {
			state := fmt.Sprint("state ", sequence)
			_ = north.Report([]byte(state))
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.states["north"] == state
		})
		eventually(t, "a pulse is heard", func() bool {
			if err := s.server.Pulse("north", []byte("beat")); err != nil {
				return false
			}
			select {
			case <-pulses:
				return true
			case <-time.After(20 * time.Millisecond):
				return false
			}
		})
	}
	eventually(t, "the agent is connected to the leaf", atLeaf)
	works(1)
	if n := s.deliveries("north", 1); n != 1 {
		t.Errorf("a batch came %d times", n)
	}
	hub := s.leaf.Hub()
	s.cluster.Kill(hub)
	begin := time.Now()
	eventually(t, "the leaf has moved to another hub", func() bool { now := s.leaf.Hub(); return now >= 0 && now != hub })
	works(2)
	t.Logf("a hub was killed: the agent works again after %s", time.Since(begin))
	if !atLeaf() {
		t.Errorf("the agent left the leaf for %s", north.Remote())
	}
	s.cluster.Restart(hub)
	s.leaf.Kill()
	begin = time.Now()
	eventually(t, "the agent is connected to a hub", func() bool { return north.Connected() && !atLeaf() })
	works(3)
	t.Logf("the leaf was killed: the agent works again after %s", time.Since(begin))
}

// TestLeafReturns: agents that know only the leaf go on when it is back; each batch is stored once
// or more, and each acknowledged one is.
func TestLeafReturns(t *testing.T) {
	s := startSite(t)
	north := s.agent("north", s.leaf.URL)
	var acknowledged atomic.Uint64
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for n := uint64(0); ctx.Err() == nil; {
			if s.sends(north, n) {
				n++
				acknowledged.Store(n)
				continue
			}
			<-again.C
		}
	}()
	for range 2 {
		before := acknowledged.Load()
		eventually(t, "batches are acknowledged", func() bool { return acknowledged.Load() > before+10 })
		s.leaf.Kill()
		eventually(t, "the agent is offline", func() bool { return !north.Connected() })
		s.leaf.Restart()
	}
	before := acknowledged.Load()
	eventually(t, "batches are acknowledged again", func() bool { return acknowledged.Load() > before+10 })
	cancel()
	<-ended
	for n := range acknowledged.Load() {
		if s.deliveries("north", n) == 0 {
			t.Errorf("batch %d is acknowledged and was not delivered", n)
		}
	}
}
