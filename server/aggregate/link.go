package aggregate

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"pillion.dev/bus"
	"pillion.dev/internal/version"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Identity of this server as an agent of the fleet's server.
type Identity interface {
	Name() string
	Server() string
	Bus() string
	TLS() *tls.Config
	DueAt() time.Time
	Renew(ctx context.Context) error
	Standing(ctx context.Context) error
}

// Link is the connection to the fleet's server. It joins the fleet as soon as the server can be
// reached; until then, and while the connection is down, nothing can be sent.
type Link struct {
	// Join opens the identity of this server, or enrols it.
	Join func(ctx context.Context) (Identity, error)
	Log  *slog.Logger

	connection atomic.Pointer[bus.Agent]
}

const (
	stateEvery = time.Second
	joinEvery  = 30 * time.Second
	renewMost  = time.Hour // the clock may be stepped
)

// Connected reports whether the link is up.
func (l *Link) Connected() bool {
	c := l.connection.Load()
	return c != nil && c.Connected()
}

// Send sends a batch of an agent of the site.
func (l *Link) Send(ctx context.Context, agent string, batch measure.Envelope) error {
	c := l.connection.Load()
	if c == nil {
		return bus.ErrOffline
	}
	return c.SendFor(ctx, agent, batch)
}

// Run joins, connects, reports and renews the certificate until the context ends.
func (l *Link) Run(ctx context.Context) {
	identity := l.join(ctx)
	if identity == nil {
		return
	}
	c, err := bus.ConnectAgent(ctx, bus.AgentOptions{
		URL: identity.Bus(), TLS: identity.TLS(), Name: identity.Name(), Log: l.Log,
		Changed: func(connected bool, reason error) {
			l.Log.Info("link to the fleet changed", "server", identity.Server(), "connected", connected, "reason", reason)
			if errors.Is(reason, bus.ErrRefused) {
				go l.explain(ctx, identity)
			}
		},
	})
	if err == nil {
		err = c.Serve(refuse)
	}
	if err != nil {
		l.Log.Error("connect to the fleet", "error", err)
		return
	}
	defer c.Close()
	l.connection.Store(c)
	defer l.connection.Store(nil)
	ticks := time.NewTicker(stateEvery)
	defer ticks.Stop()
	renewal := time.NewTimer(0)
	defer renewal.Stop()
	state := session.State{Agent: identity.Name(), Instance: rand.Text(), Started: time.Now(), Version: version.Short()}
	for {
		select {
		case <-ctx.Done():
			return
		case <-renewal.C:
			renewal.Reset(l.renew(ctx, identity))
		case <-ticks.C:
			state.Time = time.Now()
			text, err := json.Marshal(state)
			if err == nil && c.Connected() {
				err = c.Report(text)
			}
			if err != nil {
				l.Log.Debug("report state", "error", err) // the next report follows
			}
		}
	}
}

// join retries until the context ends; nil: it has.
func (l *Link) join(ctx context.Context) Identity {
	for wait, failing := firstRetry, ""; ; wait = min(2*wait, joinEvery) {
		identity, err := l.Join(ctx)
		if err == nil {
			l.Log.Info("joined the fleet", "server", identity.Server(), "agent", identity.Name())
			return identity
		}
		if text := err.Error(); text != failing && ctx.Err() == nil {
			l.Log.Error("join the fleet", "error", err)
			failing = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// renew renews the certificate if it is due, and returns when to look again.
func (l *Link) renew(ctx context.Context, identity Identity) time.Duration {
	if wait := time.Until(identity.DueAt()); wait > 0 {
		return min(wait, renewMost)
	}
	if err := identity.Renew(ctx); err != nil {
		l.Log.Warn("renew certificate of the aggregator", "error", err)
		return renewMost
	}
	return 0
}

// explain asks why the fleet's server rejects this one, since the bus does not say.
func (l *Link) explain(ctx context.Context, identity Identity) {
	if err := identity.Standing(ctx); err != nil && ctx.Err() == nil {
		l.Log.Error("rejected by the server of the fleet", "reason", err)
	}
}

var errNoTasks = errors.New("an aggregator runs no tasks")

// refuse answers requests to this agent: it takes an assignment without tasks only.
func refuse(_ context.Context, text []byte) ([]byte, error) {
	var request session.Request
	if err := json.Unmarshal(text, &request); err != nil {
		return nil, err
	}
	if a := request.Apply; a == nil || a.Leased() || len(a.Traces) > 0 {
		return nil, errNoTasks
	}
	return json.Marshal(session.Reply{})
}
