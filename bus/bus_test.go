package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"pillion.dev/internal/test/hang"
	"pillion.dev/measure"
)

// patience is the timeout of every wait; no test asserts a duration.
const patience = hang.Limit

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func startEmbedded(t *testing.T, p *pki, edit ...func(*EmbeddedOptions)) *Embedded {
	t.Helper()
	options := EmbeddedOptions{Listen: "127.0.0.1:0", TLS: p.server(), Authorize: p.authorize, Log: quiet()}
	for _, e := range edit {
		e(&options)
	}
	e, err := StartEmbedded(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Shutdown)
	return e
}

func connectServer(t *testing.T, options ServerOptions) *Server {
	t.Helper()
	s, err := ConnectServer(within(t), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func url(e *Embedded) string { return "tls://" + e.Addr().String() }

// changes records the calls of Changed.
type changes struct {
	mu   sync.Mutex
	list []change
}

func (c *changes) changed(connected bool, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, change{connected, reason})
}

// sequence returns whether the link was up, by change; that it stays down for another reason
// is none.
func (c *changes) sequence() []bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var up []bool
	for _, change := range c.list {
		up = append(up, change.connected)
	}
	return slices.Compact(up)
}

// refusal returns the first refusal, or nil.
func (c *changes) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range c.list {
		if errors.Is(change.reason, ErrRefused) {
			return change.reason
		}
	}
	return nil
}

func dialAgent(t *testing.T, url, name string, config *tls.Config) (*Agent, *changes) {
	t.Helper()
	c := &changes{}
	a, err := ConnectAgent(t.Context(), AgentOptions{URL: url, TLS: config, Name: name, Log: quiet(), Changed: c.changed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, c
}

func connectAgent(t *testing.T, p *pki, e *Embedded, name string) *Agent {
	t.Helper()
	a, _ := dialAgent(t, url(e), name, p.agent(name))
	eventually(t, name+" connects", a.Connected)
	return a
}

func batch(sequence uint64, payload string) measure.Envelope {
	return measure.Envelope{
		Key: measure.Key{Stream: "flows", Epoch: 7, Sequence: sequence}, Rows: 3, Oldest: min(sequence, 1),
		Checksum: measure.Checksum([]byte(payload)), Payload: []byte(payload),
	}
}

func TestSend(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	a := connectAgent(t, p, e, "a")
	if err := a.Send(within(t), batch(1, "early")); err == nil || errors.Is(err, ErrRejected) {
		t.Fatalf("without a data handler, got %v", err)
	}
	came := make(chan Delivery, 1)
	var answer error
	if err := s.ServeData(func(d Delivery) { d.Answer(answer); d.Answer(errors.New("a second answer")); came <- d }); err != nil {
		t.Fatal(err)
	}
	if err := s.ServeData(nil); err == nil {
		t.Error("a second data handler was accepted")
	}
	for _, row := range []struct {
		name   string
		answer error
		is     error // nil: any error
	}{
		{"stored", nil, nil},
		{"rejected", fmt.Errorf("%w: no such stream", ErrRejected), ErrRejected},
		{"damaged", fmt.Errorf("decode: %w: checksum\nof two lines", measure.ErrBatch), ErrRejected},
		{"busy", ErrBusy, ErrBusy},
		{"again", errors.New("disk is full"), nil},
		{"of a later version", fmt.Errorf("decode: %w: type 99", measure.ErrUnknown), ErrUnsupported},
	} {
		t.Run(row.name, func(t *testing.T) {
			answer = row.answer
			sent := batch(5, "payload")
			err := a.Send(within(t), sent)
			got := await(t, "delivery", came)
			if got.Agent != "a" || got.Key != sent.Key || got.Rows != 3 || got.Oldest != 1 ||
				got.Checksum != sent.Checksum || string(got.Payload) != "payload" {
				t.Errorf("got %+v", got)
			}
			if (err == nil) != (row.answer == nil) || row.is != nil && !errors.Is(err, row.is) ||
				row.name == "again" && (errors.Is(err, ErrRejected) || !strings.Contains(err.Error(), "disk is full")) {
				t.Errorf("got error %v", err)
			}
		})
	}
	if got := s.Stats(); got.Batches != 6 || got.Rejected != 2 || got.Busy != 1 || got.Retries != 1 || got.Unsupported != 1 || got.Waiting != 0 {
		t.Errorf("stats %+v", got)
	}
}

// TestRevokedAgentIsRefusedAtIngest: on an external cluster the connection of a revoked
// agent stays, and its certificate is valid; its batches are refused all the same, and are
// not rejected, which would remove them from its spool.
func TestRevokedAgentIsRefusedAtIngest(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	var revoked atomic.Bool
	s := connectServer(t, ServerOptions{InProcess: e, Admit: func(agent string) error {
		if revoked.Load() && agent == "a" {
			return errors.New("agent is revoked")
		}
		return nil
	}})
	var stored atomic.Int32
	if err := s.ServeData(func(d Delivery) { stored.Add(1); d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	a, b := connectAgent(t, p, e, "a"), connectAgent(t, p, e, "b")
	if err := a.Send(within(t), batch(1, "x")); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	if err := a.Send(within(t), batch(2, "x")); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("revoked: %v", err)
	}
	if err := b.Send(within(t), batch(1, "x")); err != nil {
		t.Errorf("another agent: %v", err)
	}
	if stored.Load() != 2 || s.Stats().Refused != 1 {
		t.Errorf("%d stored, stats %+v", stored.Load(), s.Stats())
	}
}

func TestSendSizes(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	a := connectAgent(t, p, e, "a")
	if err := s.ServeData(func(d Delivery) { d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	if err := a.Send(within(t), batch(1, strings.Repeat("x", MaxPayload))); err != nil {
		t.Errorf("largest payload: %v", err)
	}
	if err := a.Send(within(t), batch(2, strings.Repeat("x", MaxPayload+1))); !errors.Is(err, ErrRejected) {
		t.Errorf("larger than that: %v", err)
	}
	if err := a.Send(within(t), measure.Envelope{Key: measure.Key{Stream: "a.b"}}); !errors.Is(err, ErrRejected) {
		t.Errorf("stream of two tokens: %v", err)
	}
	if !a.Connected() {
		t.Error("the link is down")
	}
}

func TestBlockedHandlerRejectsBeyondTheBacklog(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e, Backlog: 1}) // raised to MaxPayload
	a := connectAgent(t, p, e, "a")
	blocked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	if err := s.ServeData(func(d Delivery) {
		once.Do(func() { close(blocked) })
		<-release
		d.Answer(nil)
	}); err != nil {
		t.Fatal(err)
	}
	const n = 6
	payload := strings.Repeat("x", MaxPayload/4)
	errs := make(chan error, n)
	go func() { errs <- a.Send(within(t), batch(0, payload)) }()
	await(t, "handler runs", blocked)
	for i := range uint64(n - 1) {
		go func() { errs <- a.Send(within(t), batch(i+1, payload)) }()
	}
	stored, busy := 0, 0
	for range 2 { // the handler's own counts until it returns: four fit
		if err := await(t, "answer while blocked", errs); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v, want busy", err)
		}
		busy++
	}
	close(release)
	for range n - busy {
		if err := await(t, "answer", errs); err != nil {
			t.Error(err)
		}
		stored++
	}
	if got := s.Stats(); got.Busy != 2 || got.Dropped != 0 || stored != 4 {
		t.Errorf("stored %d, stats %+v", stored, got)
	}
}

func TestStatesPulsesAndRequests(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	a := connectAgent(t, p, e, "a")
	states, pulses := make(chan string, 10), make(chan string, 10)
	if err := s.ServeStates(func(agent string, state []byte) { states <- agent + " " + string(state) }); err != nil {
		t.Fatal(err)
	}
	if err := a.Report([]byte("fine")); err != nil {
		t.Fatal(err)
	}
	if got := await(t, "state", states); got != "a fine" {
		t.Errorf("state %q", got)
	}
	if _, err := s.Ask(within(t), "a", nil); !errors.Is(err, ErrAway) {
		t.Errorf("before Serve: %v", err)
	}
	err := errors.Join(a.Pulse(func(pulse []byte) { pulses <- string(pulse) }),
		a.Serve(func(ctx context.Context, request []byte) ([]byte, error) {
			switch string(request) {
			case "fail":
				return nil, errors.New("no such device")
			case "wait":
				<-ctx.Done()
				return nil, ctx.Err()
			case "large":
				return make([]byte, MaxPayload+1), nil
			}
			return append([]byte("re: "), request...), nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent answers", func() bool {
		got, err := s.Ask(within(t), "a", []byte("hello"))
		return err == nil && string(got) == "re: hello"
	})
	if _, err := s.Ask(within(t), "a", []byte("fail")); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("handler's error: %v", err)
	}
	if _, err := s.Ask(within(t), "a", []byte("large")); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("large reply: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Ask(short, "a", []byte("wait")); err == nil {
		t.Error("no timeout")
	}
	if err := s.Pulse("a", []byte("beat")); err != nil {
		t.Fatal(err)
	}
	if got := await(t, "pulse", pulses); got != "beat" {
		t.Errorf("pulse %q", got)
	}
	for _, name := range []string{"", "*", ">", "a.b", "A", "a b", "_server"} {
		if _, err := s.Ask(within(t), name, nil); err == nil || errors.Is(err, ErrAway) {
			t.Errorf("ask %q: %v", name, err)
		}
		if err := s.Pulse(name, nil); err == nil {
			t.Errorf("pulse %q: no error", name)
		}
	}
	if _, err := s.Ask(within(t), "unknown", nil); !errors.Is(err, ErrAway) {
		t.Errorf("unknown agent: %v", err)
	}
}

func TestConnectAgentOptions(t *testing.T) {
	p := newPKI(t)
	for _, row := range []struct {
		name    string
		options AgentOptions
	}{
		{"name", AgentOptions{URL: "tls://127.0.0.1:1", TLS: p.agent("a"), Name: "a.b"}},
		{"no TLS", AgentOptions{URL: "tls://127.0.0.1:1", Name: "a"}},
		{"URL", AgentOptions{URL: "tls://127.0.0.1:port", TLS: p.agent("a"), Name: "a"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := ConnectAgent(t.Context(), row.options); err == nil {
				t.Error("no error")
			}
		})
	}
}

// rawClient is a NATS client with an agent's certificate and no restrictions of its own.
func rawClient(t *testing.T, p *pki, e *Embedded, name string, violations chan<- error) *nats.Conn {
	t.Helper()
	c, err := nats.Connect(url(e), nats.Secure(p.agent(name)), nats.NoReconnect(), nats.CustomInboxPrefix(inboxPrefix(name)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCloseEndsGoroutines(t *testing.T) {
	p := newPKI(t)
	before := runtime.NumGoroutine()
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	a := connectAgent(t, p, e, "a")
	waiting := make(chan struct{})
	err := errors.Join(
		s.ServeData(func(d Delivery) { d.Answer(nil) }),
		s.ServeStates(func(string, []byte) {}),
		a.Pulse(func([]byte) {}),
		a.Serve(func(ctx context.Context, _ []byte) ([]byte, error) {
			close(waiting)
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		a.Send(within(t), batch(1, "x")))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = s.Ask(within(t), "a", nil) }() // ends with the agent's handler
	await(t, "handler runs", waiting)
	away, _ := dialAgent(t, "tls://127.0.0.1:1", "b", p.agent("b"))
	for range 2 { // closing twice has no effect
		away.Close()
		a.Close()
		s.Close()
		e.Shutdown()
	}
	if err := a.Pulse(nil); err == nil {
		t.Error("a closed agent can subscribe")
	}
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestOrderOfURLs: an agent tries the URLs as they are listed, again and again.
func TestOrderOfURLs(t *testing.T) {
	p := newPKI(t)
	leaf, hub := startEmbedded(t, p), startEmbedded(t, p)
	dial := func(urls ...string) *Agent {
		a, err := ConnectAgent(t.Context(), AgentOptions{URL: strings.Join(urls, ","), InOrder: true, TLS: p.agent("north"), Name: "north"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		eventually(t, "the agent is connected", a.Connected)
		return a
	}
	for range 5 {
		a := dial(url(leaf), url(hub))
		if a.Remote() != leaf.Addr().String() {
			t.Fatalf("connected to %s, want the first", a.Remote())
		}
		a.Close()
		// Until then it refuses another process with the name, which goes to the next one.
		eventually(t, "the server has seen that", func() bool {
			leaf.mu.Lock()
			defer leaf.mu.Unlock()
			return leaf.server.GetClient(leaf.members["north"].connection) == nil
		})
	}
	a := dial("tls://127.0.0.1:1", "tls://127.0.0.1:2", url(leaf), url(hub))
	if a.Remote() != leaf.Addr().String() {
		t.Errorf("connected to %s, want the first that responds", a.Remote())
	}
	leaf.Shutdown()
	eventually(t, "the agent has moved", func() bool { return a.Remote() == hub.Addr().String() })
}

// TestSendFor: only an aggregator sends batches of other agents, and only of its site.
func TestSendFor(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e, Site: func(agent string) string {
		return map[string]string{"aggregator": "paris"}[agent]
	}})
	got := make(chan Delivery, 10)
	if err := s.ServeData(func(d Delivery) { got <- d; d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	aggregator, ordinary := connectAgent(t, p, e, "aggregator"), connectAgent(t, p, e, "ordinary")
	for n := range uint64(3) { // the first is not compressed
		if err := aggregator.SendFor(within(t), "north", compressible(n)); err != nil {
			t.Fatal(err)
		}
		if d := await(t, "batch", got); d.Agent != "aggregator" || d.Of != "paris/north" || d.Site != "paris" || string(d.Payload) != string(compressible(n).Payload) {
			t.Errorf("batch %d is of %q, site %q, by %q", n, d.Of, d.Site, d.Agent)
		}
	}
	if err := aggregator.Send(within(t), compressible(3)); err != nil {
		t.Fatal(err)
	}
	if d := await(t, "batch", got); d.Agent != "aggregator" || d.Of != "" || d.Site != "" {
		t.Errorf("its own batch is of %q, by %q", d.Of, d.Agent)
	}
	for _, name := range []string{"paris/north", "other/north", "", "north north"} {
		if err := aggregator.SendFor(within(t), name, compressible(4)); !errors.Is(err, ErrRejected) {
			t.Errorf("for %q: %v", name, err)
		}
	}
	if err := ordinary.SendFor(within(t), "north", compressible(4)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "no aggregator") {
		t.Errorf("by another agent: %v", err)
	}
	if len(got) != 0 {
		t.Errorf("%d batches arrived that should not", len(got))
	}
}
