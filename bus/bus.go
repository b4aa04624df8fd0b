// Package bus carries batches, control requests and state between agents and
// servers over NATS: its subjects, the embedded server, and the client of either
// side. Only this room knows NATS.
//
// Subjects, for an agent a and a stream s:
//
//	pillion.data.a.s   a batch; the reply says that it is stored
//	pillion.state.a    the agent's state, about once a second
//	pillion.control.a  a request to the agent, with a reply
//	pillion.pulse.a    what a server tells the agent about once a second
//
//	pillion.hello.c    asks the embedded server whether connection c is welcome
//	pillion.welcome.c  the answer, with the reason of a refusal
//
// An agent may publish on its own data and state subjects and hear its own control
// and pulse subjects, nothing else. Who sent a batch is read from its subject, which
// the certificate of the connection gives the right to, and never from the message.
//
// A batch is a request: its payload is the Arrow stream, its envelope a header
// (header.go). The sender keeps it until the reply says that it is stored, so
// whatever is lost on the way, in a queue that was full for one, is sent again.
//
// A NATS cluster of others has to give the same rights: it maps the certificate's
// common name to a user with those subjects, _INBOX.a.> to hear replies, and the
// right to answer once (allow_responses). It does not keep a second host from using
// one name, and does not say why it refuses; the server's Standing does.
package bus

import (
	"errors"
	"regexp"
)

// Errors that callers tell apart.
var (
	// ErrRefused is a connection that the other side will not have, with its
	// reason: trying again will not help before somebody has changed something.
	ErrRefused = errors.New("refused")
	// ErrAway is an agent that nobody answers for.
	ErrAway = errors.New("agent is not connected")
	// ErrRejected is a batch that will never be stored; the reason follows.
	ErrRejected = errors.New("batch rejected")
	// ErrBusy is a server, or an agent, with as much to do as it takes: try again
	// later.
	ErrBusy = errors.New("busy")
	// ErrOffline is a link that is down now.
	ErrOffline = errors.New("not connected")
)

// MaxPayload is the largest message, bytes, its header not counted.
const MaxPayload = 8<<20 - headerRoom

// headerRoom is what a message's header may take, bytes.
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
