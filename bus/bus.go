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
// An agent may publish on its own data and state subjects and hear its own control
// and pulse subjects, nothing else.
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
)

// MaxPayload is the largest message, bytes.
const MaxPayload = 8 << 20

var agentName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidAgent reports whether an agent can have that name: lowercase letters,
// digits and inner hyphens, at most 63 (a DNS label, RFC 1123).
func ValidAgent(name string) bool { return agentName.MatchString(name) }
