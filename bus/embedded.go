package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// EmbeddedOptions of an in-process server.
type EmbeddedOptions struct {
	// Listen is host:port; port 0 picks a free port, an empty host all addresses.
	Listen string
	// TLS has the server's certificate. Authorize verifies client certificates, not
	// TLS.
	TLS *tls.Config
	// Authorize returns the agent of a connection. An error refuses it; the client
	// is given the reason only if the name is set too, that is, for a known agent.
	// It is called more than once per connection, from any goroutine.
	Authorize func(tls.ConnectionState) (agent string, err error)
	// Connections limits concurrent connections; default 4096.
	Connections int
	// Source limits the connections of one source address that no agent has been
	// authenticated on yet; default 256. Exceeded, if set, is called for those refused; it
	// must not block.
	Source   int
	Exceeded func(source string, err error)
	// Refused, if set, is called when a connection of a known agent was refused; at
	// most once a minute for the same reason. It must not block.
	Refused func(agent, remote string, reason error)
	Log     *slog.Logger
}

// Embedded is an in-process NATS server for agents only, with one connection per
// agent, restricted to its own subjects.
type Embedded struct {
	options EmbeddedOptions
	log     *slog.Logger
	server  *server.Server
	secret  string // of in-process connections
	client  *nats.Conn
	ready   chan struct{}
	stop    sync.Once
	ended   chan struct{}
	tasks   sync.WaitGroup

	mu      sync.Mutex
	members map[string]member    // by agent
	refused map[uint64]refusal   // connections waiting for the reason, by number
	logged  map[string]time.Time // refusals, for rate limiting
	// suspended agents flooded the server.
	suspended map[string]suspension
	greetings *rates // by connection
	sources   *sources
}

// Limits of the embedded server. A vanished host is detected after pingEvery times
// pingsOut; until then its name is in use.
const (
	startTime     = 10 * time.Second
	handshakeTime = 5 * time.Second
	pingEvery     = 5 * time.Second
	pingsOut      = 2
	subscriptions = 64
	connections   = 4096
	outboundLimit = 256 << 20
	writeTime     = 10 * time.Second
	answerExpires = 10 * time.Minute // for an agent to answer a control request
)

// StartEmbedded starts a server; it returns when agents can connect.
func StartEmbedded(options EmbeddedOptions) (*Embedded, error) {
	e := &Embedded{
		options: options, log: options.Log, secret: rand.Text() + rand.Text(), ready: make(chan struct{}), ended: make(chan struct{}),
		members: map[string]member{}, refused: map[uint64]refusal{}, logged: map[string]time.Time{},
		suspended: map[string]suspension{}, greetings: newRates(1, 8),
	}
	e.sources = newSources(cmp.Or(options.Source, sourceConnections))
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if options.TLS == nil || options.Authorize == nil {
		return nil, errors.New("start bus: TLS and Authorize are required")
	}
	settings, err := e.settings()
	if err != nil {
		return nil, fmt.Errorf("start bus on %q: %w", options.Listen, err)
	}
	if e.server, err = server.NewServer(settings); err != nil {
		return nil, fmt.Errorf("start bus on %q: %w", options.Listen, err)
	}
	log := &serverLog{log: e.log, now: time.Now}
	e.server.SetLogger(log, false, false)
	e.server.Start()
	if err := e.open(log); err != nil {
		e.Shutdown()
		return nil, fmt.Errorf("start bus on %q: %w", options.Listen, err)
	}
	return e, nil
}

func (e *Embedded) settings() (*server.Options, error) {
	host, text, err := net.SplitHostPort(e.options.Listen)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("invalid port %q", text)
	}
	settings := &server.Options{
		ServerName: "pillion", Host: host, Port: int(port),
		NoSigs: true, NoLog: true, NoSystemAccount: true,
		TLSConfig: e.options.TLS.Clone(), TLSTimeout: handshakeTime.Seconds(), AuthTimeout: handshakeTime.Seconds(),
		PingInterval: pingEvery, MaxPingsOut: pingsOut, DisableShortFirstPing: true,
		MaxPayload: MaxPayload + headerRoom, MaxPending: outboundLimit, WriteDeadline: writeTime,
		MaxConn: e.options.Connections, MaxSubs: subscriptions,
		CustomClientAuthentication: e,
	}
	if port == 0 {
		settings.Port = server.RANDOM_PORT
	}
	if host == "" {
		settings.Host = anyHost()
	}
	if settings.MaxConn == 0 {
		settings.MaxConn = connections
	}
	settings.TLSConfig.ClientAuth = tls.RequireAnyClientCert
	settings.TLSConfig.MinVersion = tls.VersionTLS13
	settings.TLSConfig.SessionTicketsDisabled = true // each connection must authenticate
	settings.TLSConfig.GetConfigForClient = e.hello
	settings.Cluster.NoAdvertise = true
	return settings, nil
}

// anyHost returns the wildcard address, of both families if the host has IPv6.
func anyHost() string {
	listener, err := net.Listen("tcp6", "[::]:0")
	if err != nil {
		return "0.0.0.0"
	}
	listener.Close()
	return "::"
}

// open waits for the listener and connects the in-process client, which answers hellos.
func (e *Embedded) open(log *serverLog) (err error) {
	for end := time.Now().Add(startTime); !e.server.ReadyForConnections(20 * time.Millisecond); {
		if reason := log.failure(); reason != "" {
			return errors.New(oneLine(reason))
		}
		if time.Now().After(end) {
			return fmt.Errorf("not ready after %s", startTime)
		}
	}
	e.client, err = nats.Connect("", nats.InProcessServer(e.server), nats.Token(e.secret), nats.NoReconnect())
	if err == nil {
		_, err = e.client.Subscribe(helloPrefix+"*", e.greet)
	}
	if err == nil {
		err = e.client.FlushTimeout(startTime)
	}
	if err != nil {
		return fmt.Errorf("connect in-process: %w", err)
	}
	close(e.ready)
	e.tasks.Go(e.watchSources)
	return nil
}

// Addr returns the listen address, with the actual port if port 0 was configured.
func (e *Embedded) Addr() net.Addr { return e.server.Addr() }

// Disconnect closes the agent's connection, if any. The agent may reconnect if
// Authorize permits.
func (e *Embedded) Disconnect(agent string) {
	e.mu.Lock()
	m, found := e.members[agent]
	delete(e.members, agent)
	e.mu.Unlock()
	if found {
		_ = e.server.DisconnectClientByID(m.connection) // an error: it is closed already
	}
}

// Shutdown closes all connections and waits until the server has stopped.
func (e *Embedded) Shutdown() {
	e.stop.Do(func() {
		if e.client != nil {
			e.client.Close()
		}
		e.server.Shutdown()
		e.server.WaitForShutdown()
		close(e.ended)
		e.tasks.Wait()
	})
}

// connect opens an in-process connection for the server's side.
func (e *Embedded) connect(ctx context.Context, options ...nats.Option) (*nats.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nats.Connect("", append(options, nats.InProcessServer(e.server), nats.Token(e.secret), nats.NoReconnect())...)
}
