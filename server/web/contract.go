package web

import (
	"context"
	"crypto/tls"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/skew"
	"pillion.dev/server/authority"
	"pillion.dev/server/control"
	"pillion.dev/server/pods"
	clockpairs "pillion.dev/server/skew"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

// Control is the part of control.Control that this package uses.
type Control interface {
	Agents() []control.Agent
	// AgentsAfter returns some agents with a label, by name, of those after one.
	AgentsAfter(after, label string, most int) (agents []control.Agent, more bool)
	Agent(name string) (control.Agent, error)
	// Peer returns an agent with its addresses.
	Peer(name string) (session.Peer, error)
	SetLabels(name string, labels map[string]string) error
	Approve(name string, labels map[string]string, addresses, withdraw []string) error
	Revoke(name string) error
	// ApplyRevocations revokes the agents among these that MergeRevocations revoked.
	ApplyRevocations(agents []string) error
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

	Checks(name string) []session.Check
	Ask(ctx context.Context, agent string, request session.Request) (session.Reply, error)
	Describe(ctx context.Context, agent string, devices []string) (map[string]string, error)
}

// Topology is the part of topology.Topology that this package uses.
type Topology interface {
	Graph(of topology.Selection, scope *archive.Scope) topology.Graph
	Add(source, destination, session string, result session.TraceResult) error
	ChangeIn(source string, traces *topology.Traces) topology.Change
}

// Authority is the part of authority.Authority that this package uses.
type Authority interface {
	Check(secret string) (authority.Token, error)
	Create(wanted authority.Token) (authority.Token, string, error)
	List() []authority.Token
	Revoke(name string) error
	// Enrol signs the key of a host with a join token.
	Enrol(token, name string, request []byte) (certificate, authority []byte, err error)
	// Authorize returns the agent with the connection's certificate.
	Authorize(state tls.ConnectionState) (agent string, err error)
	// Renew signs a new key for an agent that Authorize returned.
	Renew(name string, request []byte) (certificate []byte, err error)
	// Revocations is the signed list that agents carry; MergeRevocations adds one, and
	// returns the agents that have revocations new to it.
	Revocations() []byte
	MergeRevocations(signed []byte) (agents []string, err error)
}

// Live publishes rows as they are stored.
type Live interface {
	// Subscribe to streams, or to all. Batches beyond the buffer are missed.
	Subscribe(streams []string, buffer int) Subscription
	// SubscribeOwn is Subscribe for what this server of a fleet has stored: the sum over all servers
	// has each row once.
	SubscribeOwn(streams []string, buffer int) Subscription
}

// Pods is the part of pods.Names that this package uses.
type Pods interface {
	// Find returns the pod that has an address, or had it last, according to an agent or, without one, to those
	// that believe accepts.
	Find(address, agent string, believe func(agent string) bool) (pods.Pod, bool)
	// Search returns addresses of which Find returns a pod whose name contains a text.
	Search(text, agent string, believe func(agent string) bool) []string
}

// Clocks is the part of skew.Clocks that this package uses.
type Clocks interface {
	// Recent estimates of the clock offset in the delays from a source to a destination.
	Recent(source, destination string) []skew.Estimate
	// Latest estimates of all pairs; an empty name matches any.
	Latest(source, destination string) []clockpairs.Pair
}

// Subscription is a subscription to live rows.
type Subscription interface {
	// Batches is closed when the server stops. The receiver releases each record.
	Batches() <-chan archive.Batch
	// Missed counts rows that did not fit into the buffer.
	Missed() uint64
	Close()
}

// Part is the health of a part of the server.
type Part struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
