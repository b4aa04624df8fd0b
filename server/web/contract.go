package web

import (
	"context"
	"crypto/tls"
	"time"

	"pillion.dev/archive"
	"pillion.dev/session"
)

// Control knows agents and sessions.
type Control interface {
	Agents() []Agent
	Agent(name string) (Agent, error)
	// Peer is an agent with the addresses by which others reach it.
	Peer(name string) (session.Peer, error)
	SetLabels(name string, labels map[string]string) error
	Revoke(name string) error
	Delete(name string) error

	Plan(spec session.Spec) Plan
	Create(ctx context.Context, spec session.Spec, by string) (Session, []string, error)
	Change(ctx context.Context, spec session.Spec, by string) (Session, []string, error)
	Pause(name string) (Session, error)
	Resume(name string) (Session, error)
	Stop(name string) (Session, error)
	DeleteSession(name string) error
	Sessions() []Session
	Session(name string) (Session, error)
	Runs(from, to time.Time, session string) []Run

	Ask(ctx context.Context, agent string, request session.Request) (session.Reply, error)
}

// Topology knows paths.
type Topology interface {
	Graph(session string) Graph
	Trace(ctx context.Context, source, destination, address, protocol string) ([]Path, error)
}

// Authority knows tokens and certificates.
type Authority interface {
	Check(secret string) (Token, error)
	Create(name, role string, expires time.Time) (Token, string, error)
	List() []Token
	Revoke(name string) error
	// Enrol signs the key of a host that has a join token.
	Enrol(token, name string, request []byte) (certificate, authority []byte, err error)
	// VerifyAgent names the agent that has the connection's certificate.
	VerifyAgent(state tls.ConnectionState) (string, error)
	// SignAgent signs a new key of a host that has joined.
	SignAgent(name string, request []byte) (certificate []byte, err error)
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

// Agent is one host.
type Agent struct {
	Name               string
	Labels             map[string]string
	State              string
	Enrolled, Seen     time.Time
	Started            time.Time
	Version, Kernel    string
	Interfaces         []session.Interface
	Clock              session.Clock
	Spool              session.Spool
	Tasks              []Task
	CertificateExpires time.Time
}

// Task is what became of one part of a session on one agent.
type Task struct {
	session.TaskState
	Agent string
}

// Session is a specification and what became of it.
type Session struct {
	Spec                              session.Spec
	State, Reason                     string
	Created, NextStart, Started, Ends time.Time
	CreatedBy                         string
	Pairs                             []session.Pair
	Tasks                             []Task
	Revision                          uint64
}

// Plan is what a specification would do.
type Plan struct {
	Spec            session.Spec
	Problems        []session.Problem
	Warnings, Costs []string
	Pairs           []session.Pair
	Steps           []session.Step
	Starts          []time.Time
}

// Run is one planned or past run.
type Run struct {
	Session, State, Reason string
	Start, End             time.Time
}

// Token without its secret.
type Token struct {
	Name, Role             string
	Created, Expires, Used time.Time
	Revoked                bool
}

// Graph is what all traced paths make together.
type Graph struct {
	Nodes []Node
	Edges []Edge
	Paths []Path
}

// Node is a host, a router, or a hop that did not answer.
type Node struct {
	ID, Kind, Agent string
	Addresses       []string
}

// Edge leads from one node to the next.
type Edge struct {
	From, To string
	RTT      time.Duration
	Seen     time.Time
}

// Path from one agent to another.
type Path struct {
	Source, Destination, Address, Protocol string
	Nodes                                  []string
	Reached                                bool
	Time, Changed                          time.Time
	Hops                                   []session.TraceHop
}

// Part of the server, and whether it works.
type Part struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
