package bus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"pillion.dev/internal/free"
)

func TestAgentStaysOnItsSubjects(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	victim := connectAgent(t, p, e, "victim")
	asked := make(chan string, 10)
	if err := victim.Serve(func(_ context.Context, request []byte) ([]byte, error) {
		asked <- string(request)
		return []byte("secret"), nil
	}); err != nil {
		t.Fatal(err)
	}
	agents := make(chan string, 100)
	err := errors.Join(
		s.ServeData(func(d Delivery) { agents <- d.Agent; d.Answer(nil) }),
		s.ServeStates(func(agent string, _ []byte) { agents <- agent }))
	if err != nil {
		t.Fatal(err)
	}
	violations := make(chan error, 100)
	c := rawClient(t, p, e, "eve", violations)
	for _, subject := range []string{
		">", "*", "pillion.>", "pillion.data.>", "pillion.data.victim.*", "pillion.data.*.flows", "pillion.state.*",
		"pillion.control.victim", "pillion.control.*", "pillion.pulse.victim", "_INBOX.>", "_INBOX.victim.>", "_INBOX._server.>",
		"pillion.welcome.*", "pillion.hello.*", "$SYS.>", "pillion.data.eve.flows", "$JS.API.>",
	} {
		t.Run("subscribe "+subject, func(t *testing.T) {
			if _, err := c.SubscribeSync(subject); err != nil {
				t.Fatal(err)
			}
			if err := await(t, "violation", violations); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, subject := range []string{
		"pillion.data.victim.flows", "pillion.state.victim", "pillion.control.victim", "pillion.pulse.victim",
		"pillion.control.eve", "_INBOX.victim.x", "_INBOX._server.x", "pillion.data.eve.flows.more", "pillion.data.eve",
		"pillion.state", "pillion.hello.1", "pillion.welcome.1", "$SYS.REQ.SERVER.PING", "other",
	} {
		t.Run("publish "+subject, func(t *testing.T) {
			if err := c.Publish(subject, []byte("x")); err != nil {
				t.Fatal(err)
			}
			if err := await(t, "violation", violations); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("got %v", err)
			}
		})
	}
	// A batch whose reply subject would make the server send to the victim.
	e1 := batch(1, "x")
	forged := &nats.Msg{Subject: dataSubject("eve", "flows"), Reply: controlSubject("victim"),
		Header: nats.Header{batchHeader: {formatBatch(&e1, 0, "")}}, Data: e1.Payload}
	if err := errors.Join(c.PublishMsg(forged), c.Publish(stateSubject("eve"), nil), c.Flush()); err != nil {
		t.Fatal(err)
	}
	if got := await(t, "eve's own state", agents); got != "eve" {
		t.Errorf("received from %q", got)
	}
	eventually(t, "the forged batch is ignored", func() bool { return s.Stats().Rejected == 1 })
	if got, err := s.Ask(within(t), "victim", []byte("last")); err != nil || string(got) != "secret" {
		t.Errorf("got %q, %v", got, err)
	}
	if got := await(t, "request", asked); got != "last" || len(agents) != 0 {
		t.Errorf("the victim was asked %q; %d more messages", got, len(agents))
	}
}

func TestMalformedBatches(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	if err := s.ServeData(func(d Delivery) { t.Errorf("delivered %+v", d); d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	c := rawClient(t, p, e, "a", make(chan error, 100))
	good := batch(1, "x")
	for _, row := range []struct {
		name, stream string
		header       nats.Header
		size         int
	}{
		{"no header", "flows", nil, 1},
		{"two headers", "flows", nats.Header{batchHeader: {formatBatch(&good, 0, ""), formatBatch(&good, 0, "")}}, 1},
		{"empty", "flows", nats.Header{batchHeader: {""}}, 1},
		{"stream in capitals", "Flows", nats.Header{batchHeader: {formatBatch(&good, 0, "")}}, 1},
		{"payload over the limit", "flows", nats.Header{batchHeader: {formatBatch(&good, 0, "")}}, MaxPayload + 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := &nats.Msg{Subject: dataSubject("a", row.stream), Header: row.header, Data: make([]byte, row.size)}
			answer, err := c.RequestMsgWithContext(within(t), m)
			if err != nil {
				t.Fatal(err)
			}
			if err := outcome(answer.Header); !errors.Is(err, ErrRejected) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRefusedWithReason(t *testing.T) {
	p, other := newPKI(t), newPKI(t)
	var revoked atomic.Bool
	e := startEmbedded(t, p, func(o *EmbeddedOptions) {
		o.Authorize = func(state tls.ConnectionState) (string, error) {
			agent, err := p.authorize(state)
			if err == nil && agent == "revoked" && revoked.Load() {
				err = errors.New(`agent "revoked" was revoked on 2026-01-02`)
			}
			return agent, err
		}
	})
	connectAgent(t, p, e, "twin")
	gone, reasons := dialAgent(t, url(e), "revoked", p.agent("revoked"))
	eventually(t, "connects before it is revoked", gone.Connected)
	revoked.Store(true)
	e.Disconnect("revoked")
	e.Disconnect("unknown")
	eventually(t, "is notified of its revocation", func() bool { return reasons.refusal() != nil })
	if got := reasons.refusal().Error(); !strings.Contains(got, "revoked on 2026-01-02") || gone.Connected() {
		t.Errorf("got %q", got)
	}
	revoked.Store(false)
	eventually(t, "connects when it may again", gone.Connected)

	foreign := other.agent("a")
	foreign.RootCAs = p.pool
	for _, row := range []struct {
		name, agent, want string
		config            *tls.Config
	}{
		{"expired certificate", "old", "certificate expired on", p.client("old", time.Now().Add(-time.Minute))},
		{"second host of a name", "twin", `agent "twin" is already connected, from 127.0.0.1`, p.agent("twin")},
		{"certificate of another authority", "a", "authorization violation", foreign},
		{"name that none can have", "a", "authorization violation", p.agent("a.b")},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, c := dialAgent(t, url(e), row.agent, row.config)
			eventually(t, "receives a reason", func() bool { return c.refusal() != nil })
			if got := c.refusal().Error(); !strings.Contains(strings.ToLower(got), row.want) || a.Connected() {
				t.Errorf("got %q, want %q", got, row.want)
			}
			if err := a.Send(within(t), batch(1, "x")); !errors.Is(err, ErrOffline) {
				t.Errorf("send: %v", err)
			}
		})
	}
}

func TestDuplicateDoesNotDisplaceTheFirst(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	config := p.agent("twin")
	first, firstChanges := dialAgent(t, url(e), "twin", config)
	eventually(t, "the first connects", first.Connected)
	second, secondChanges := dialAgent(t, url(e), "twin", config)
	eventually(t, "the second is refused", func() bool { return secondChanges.refusal() != nil })
	if !first.Connected() || second.Connected() || slices.Contains(firstChanges.sequence(), false) {
		t.Error("the first lost its connection")
	}
	first.Close()
	eventually(t, "the second takes the place", second.Connected)
}

func TestCertificateEndsTheConnection(t *testing.T) {
	t.Parallel() // it mostly waits
	p := newPKI(t)
	e := startEmbedded(t, p)
	config := p.client("a", time.Now().Add(10*time.Second)) // which has to suffice to connect
	a, c := dialAgent(t, url(e), "a", config)
	eventually(t, "connects", func() bool { return slices.Contains(c.sequence(), true) })
	eventually(t, "is refused when it has expired", func() bool {
		err := c.refusal()
		return err != nil && !a.Connected()
	})
}

// insider is a connection without TLS.
type insider struct {
	server.ClientAuthentication
	token string
}

func (i insider) GetTLSConnectionState() *tls.ConnectionState { return nil }
func (i insider) GetOpts() *server.ClientOpts                 { return &server.ClientOpts{Token: i.token} }

func TestInProcessNeedsTheSecret(t *testing.T) {
	e := startEmbedded(t, newPKI(t))
	for token, want := range map[string]bool{"": false, "guess": false, e.secret: true} {
		if got := e.Check(insider{token: token}); got != want {
			t.Errorf("token %q: %t", token, got)
		}
	}
}

func TestStartEmbeddedFaults(t *testing.T) {
	p := newPKI(t)
	taken := startEmbedded(t, p)
	for _, row := range []struct{ name, listen, want string }{
		{"no port", "127.0.0.1", "missing port"},
		{"port", "127.0.0.1:65536", "65536"},
		{"taken", taken.Addr().String(), "address already in use"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := StartEmbedded(EmbeddedOptions{Listen: row.listen, TLS: p.server(), Authorize: p.authorize})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	if _, err := StartEmbedded(EmbeddedOptions{Listen: "127.0.0.1:0"}); err == nil {
		t.Error("starts without TLS")
	}
}

func TestGarbageOnThePort(t *testing.T) {
	p := newPKI(t)
	e := startEmbedded(t, p)
	s := connectServer(t, ServerOptions{InProcess: e})
	if err := s.ServeData(func(d Delivery) { d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	a := connectAgent(t, p, e, "a")
	if err := a.Send(within(t), batch(0, "x")); err != nil { // initialises sending
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	address := e.Addr().String()
	plain := []string{
		"", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff\x01\x00", strings.Repeat("A", 1<<20), "CONNECT {}\r\nPING\r\n",
		"PUB a 99999999999\r\n", "\x00\xff\x00\xff",
	}
	secure := []string{
		"", "PING\r\n", "CONNECT {\r\n", "CONNECT {}\r\nPUB pillion.data.a.flows 1\r\nx\r\n", strings.Repeat("B", 1<<20),
		"CONNECT {}\r\nPUB pillion.state.b -1\r\n", "CONNECT {}\r\nHPUB pillion.state.b 99 5\r\nxxxxx\r\n",
		"CONNECT {}\r\nHPUB pillion.data.b.flows _INBOX.b.1 12 12\r\nNATS/9.9\r\n\r\n\r\n",
		"CONNECT {}\r\nSUB > 1\r\nSUB > 2\r\nUNSUB 9\r\n", "CONNECT {}\r\nPUB pillion.state.b 99999999\r\n", "\x00\r\n",
		"CONNECT {\"verbose\":1}\r\n", "CONNECT {}\r\nCONNECT {}\r\nPING\r\n", "CONNECT {\"name\":\"" + strings.Repeat("C", 5000) + "\"}\r\n",
	}
	for range 3 {
		for _, text := range plain {
			spit(t, address, text, nil)
		}
		for _, text := range secure {
			spit(t, address, text, p.agent("b"))
		}
	}
	if err := a.Send(within(t), batch(1, "x")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	eventually(t, "only the own connections are left", func() bool { return e.server.NumClients() == 3 })
	eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// spit writes the text, after a handshake if there is a config, and closes. Write errors
// are expected.
func spit(t *testing.T, address, text string, config *tls.Config) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if config != nil {
		config.InsecureSkipVerify = true
		info := make([]byte, 1)
		for info[0] != '\n' { // INFO comes before TLS
			if _, err := conn.Read(info); err != nil {
				t.Fatal(err)
			}
		}
		secure := tls.Client(conn, config)
		if err := secure.Handshake(); err != nil {
			t.Fatal(err)
		}
		_, _ = secure.Write([]byte(text))
		return
	}
	_, _ = conn.Write([]byte(text))
}

func TestServerRestart(t *testing.T) {
	p := newPKI(t)
	address := free.Address(t) // not one that the kernel assigns: a redialling client could get it meanwhile
	e := startEmbedded(t, p, func(o *EmbeddedOptions) { o.Listen = address })
	a, c := dialAgent(t, "tls://"+address, "a", p.agent("a"))
	if err := a.Serve(func(_ context.Context, request []byte) ([]byte, error) { return request, nil }); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		if round > 0 {
			e = startEmbedded(t, p, func(o *EmbeddedOptions) { o.Listen = address })
		}
		s := connectServer(t, ServerOptions{InProcess: e})
		held := make(chan Delivery, 1)
		if err := s.ServeData(func(d Delivery) { held <- d }); err != nil {
			t.Fatal(err)
		}
		eventually(t, "connects", a.Connected)
		eventually(t, "answers", func() bool {
			got, err := s.Ask(within(t), "a", []byte("x"))
			return err == nil && string(got) == "x"
		})
		sent := make(chan error, 1)
		go func() { sent <- a.Send(within(t), batch(uint64(round), "x")) }()
		d := await(t, "delivery", held)
		s.Close()
		e.Shutdown()
		d.Answer(nil) // too late: the batch is retransmitted
		if err := await(t, "end of sending", sent); !errors.Is(err, ErrOffline) {
			t.Errorf("sending when the server dies: %v", err)
		}
		eventually(t, "notices", func() bool { return !a.Connected() })
		if err := errors.Join(a.Report(nil), a.Send(within(t), batch(9, "x"))); !errors.Is(err, ErrOffline) {
			t.Errorf("without a server: %v", err)
		}
	}
	eventually(t, "all changes are reported", func() bool { return len(c.sequence()) == 6 })
	if got := c.sequence(); !slices.Equal(got, []bool{true, false, true, false, true, false}) {
		t.Errorf("reported %v, want up and down three times", got)
	}
}

func TestCluster(t *testing.T) {
	p := newPKI(t)
	tlsConfig := p.server()
	tlsConfig.ClientAuth, tlsConfig.ClientCAs = tls.RequireAndVerifyClientCert, p.pool
	start := func(port int) *server.Server {
		n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, TLSConfig: tlsConfig, NoSigs: true, NoLog: true,
			TLSTimeout: 5, TLSVerify: true, MaxPayload: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		n.Start()
		t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })
		eventually(t, "the cluster is ready", func() bool { return n.ReadyForConnections(time.Second) })
		return n
	}
	n := start(server.RANDOM_PORT)
	port := n.Addr().(*net.TCPAddr).Port
	url := fmt.Sprintf("tls://127.0.0.1:%d", port)
	back := make(chan bool, 10)
	s := connectServer(t, ServerOptions{URL: url, TLS: p.agent("server.pillion"), Log: quiet(),
		Changed: func(connected bool, _ error) { back <- connected }})
	if err := s.ServeData(func(d Delivery) { d.Answer(nil) }); err != nil {
		t.Fatal(err)
	}
	a, _ := dialAgent(t, url, "a", p.agent("a"))
	if err := a.Serve(func(_ context.Context, request []byte) ([]byte, error) { return request, nil }); err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"first", "after a restart"} {
		eventually(t, round+": connects", func() bool { return a.Connected() && s.Connected() })
		eventually(t, round+": stores", func() bool { return a.Send(within(t), batch(1, "x")) == nil })
		eventually(t, round+": answers", func() bool { _, err := s.Ask(within(t), "a", nil); return err == nil })
		if round == "first" {
			if err := a.Send(within(t), incompressible(2, 2<<20)); !errors.Is(err, ErrRejected) {
				t.Errorf("over the cluster's limit: %v", err)
			}
			n.Shutdown()
			n.WaitForShutdown()
			if await(t, "the server notices", back) {
				t.Error("up, want down")
			}
			start(port)
		}
	}
	if _, err := ConnectServer(within(t), ServerOptions{URL: "tls://127.0.0.1:1", TLS: p.agent("x")}); err == nil {
		t.Error("connects without a server")
	}
	if _, err := ConnectServer(within(t), ServerOptions{URL: url}); err == nil {
		t.Error("connects without TLS")
	}
}
