// Package bus carries batches, control requests and state between agents and
// servers over NATS: its subjects, the embedded server, and the client of either
// side. Only this package imports NATS.
//
// Subjects, for an agent a and a stream s:
//
//	pillion.data.a.s   a batch; the reply acknowledges that it is stored
//	pillion.state.a    the agent's state, about once a second
//	pillion.control.a  a request to the agent, with a reply
//	pillion.pulse.a    the server's heartbeat to the agent, about once a second
//
//	pillion.lane.n.a.s    a batch in a cluster with lanes (lane.go), which maps pillion.data.a.s
//	pillion.answer.x.y   the reply to a request to an agent (ask.go)
//	_INBOX.a.resend       asks the agent to send again what is not acknowledged
//	pillion.server.NAME.present  whether a server of a fleet is connected, with an answer
//	pillion.leader.call  a call of another server to the leading one, with an answer
//	pillion.stored.s     a batch that a server has stored, for the others' live views
//	pillion.servers      what each server says of itself, about once a second
//
//	pillion.hello.c    asks the embedded server whether connection c is accepted
//	pillion.welcome.c  the answer, with the reason of a refusal
//
// An agent may publish on its own data and state subjects and subscribe to its own
// control and pulse subjects, nothing else. The sender of a batch is taken from the
// subject, which the connection's certificate authorises, never from the message.
//
// A batch is a request: its payload is the Arrow stream, compressed if that makes it
// smaller (compress.go), its envelope a header (header.go). The sender keeps it until the reply acknowledges that it is stored;
// whatever is lost on the way, for example in a full queue, is retransmitted.
//
// Servers of one external cluster share what they must agree on in its key-value store, with
// compare-and-set (kv.go), and take turns by leases (lease.go).
//
// An external NATS cluster must grant the same permissions: it maps the certificate's
// common name to a user with those subjects, _INBOX.a.> for replies, and permission
// to respond once (allow_responses). It does not prevent two hosts from using the
// same name, and gives no reason for a refusal; the server's Standing does.
package bus

import (
	"errors"
	"regexp"
)

// Errors that callers tell apart.
var (
	// ErrRefused is a connection that the other side refuses, with its reason.
	// Retrying does not help until the cause is removed.
	ErrRefused = errors.New("refused")
	// ErrAway is an agent without a connection.
	ErrAway = errors.New("agent is not connected")
	// ErrRejected is a permanently rejected batch; the reason follows.
	ErrRejected = errors.New("batch rejected")
	// ErrUnsupported is a batch in a layout or format that the server does not know yet:
	// keep it until the server is updated.
	ErrUnsupported = errors.New("batch not supported yet")
	// ErrBusy is an overloaded server or agent: retry later.
	ErrBusy = errors.New("busy")
	// ErrOffline is a link that is currently down.
	ErrOffline = errors.New("not connected")
)

// MaxPayload is the largest message, bytes, its header not counted.
const MaxPayload = 8<<20 - headerRoom

// headerRoom is the maximum size of a message's header, bytes.
const headerRoom = 4 << 10

const (
	serverQueue  = "pillion-server"
	serverInbox  = "_INBOX._server" // no agent's name has an underscore
	helloPrefix  = "pillion.hello."
	answerPrefix = "pillion.welcome."
)

func dataSubject(agent, stream string) string { return "pillion.data." + agent + "." + stream }
func stateSubject(agent string) string        { return "pillion.state." + agent }
func controlSubject(agent string) string      { return "pillion.control." + agent }
func pulseSubject(agent string) string        { return "pillion.pulse." + agent }
func inboxPrefix(agent string) string         { return "_INBOX." + agent }

var agentName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidAgent reports whether an agent can have that name: lowercase letters,
// digits and inner hyphens, at most 63 (a DNS label, RFC 1123).
func ValidAgent(name string) bool { return agentName.MatchString(name) }
