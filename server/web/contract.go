package web

import (
	"context"
	"crypto/tls"
	"time"

	"pillion.dev/archive"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

// Control is what of control.Control this package asks for.
type Control interface {
	Agents() []control.Agent
	Agent(name string) (control.Agent, error)
	// Peer is an agent with the addresses by which others reach it.
	Peer(name string) (session.Peer, error)
	SetLabels(name string, labels map[string]string) error
	Revoke(name string) error
	DeleteAgent(name string) error

	Plan(spec session.Spec) control.Plan
	Create(ctx context.Context, spec session.Spec, by string) (control.Session, []string, error)
	Change(ctx context.Context, spec session.Spec, by string) (control.Session, []string, error)
	Pause(name string) (control.Session, error)
	Resume(name string) (control.Session, error)
	Stop(name string) (control.Session, error)
	DeleteSession(name string) error
	Sessions() []control.Session
	Session(name string) (control.Session, error)
	Runs(from, to time.Time, session string) []control.Run

	Ask(ctx context.Context, agent string, request session.Request) (session.Reply, error)
}

// Topology is what of topology.Topology this package asks for.
type Topology interface {
	Graph(session string) topology.Graph
	Add(source, destination, session string, result session.TraceResult) error
	ChangeIn(source string, traces *topology.Traces) topology.Change
}

// Authority is what of authority.Authority this package asks for.
type Authority interface {
	Check(secret string) (authority.Token, error)
	Create(name, role string, expires time.Time) (authority.Token, string, error)
	List() []authority.Token
	Revoke(name string) error
	// Enrol signs the key of a host that has a join token.
	Enrol(token, name string, request []byte) (certificate, authority []byte, err error)
	// Authorize names the agent that has the connection's certificate.
	Authorize(state tls.ConnectionState) (agent string, err error)
	// Renew signs a new key of an agent that Authorize has named.
	Renew(name string, request []byte) (certificate []byte, err error)
}

// Live hands on rows as they are stored.
type Live interface {
	// Subscribe to streams, or to all. Batches beyond the buffer are missed.
	Subscribe(streams []string, buffer int) Subscription
}

// Subscription is one reader of live rows.
type Subscription interface {
	// Batches is closed when the server stops. The reader releases each record.
	Batches() <-chan archive.Batch
	// Missed counts rows that did not fit into the buffer.
	Missed() uint64
	Close()
}

// Part of the server, and whether it works.
type Part struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
