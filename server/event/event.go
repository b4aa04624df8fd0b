// Package event defines operational events and audit records. It stores nothing: a
// sink turns them into rows of the streams events and audit.
package event

import "time"

// Levels.
const (
	Info    = "info"
	Warning = "warning"
	Error   = "error"
)

// Event is an operational event. Kinds are listed in the API.
type Event struct {
	Time  time.Time
	Kind  string
	Level string
	Agent string
	// Peer is the destination, where the event is about a pair and Agent its source.
	Peer    string
	Session string
	Message string
}

// Change is a change, a query, an export or a refused call of the API, or several such calls that are alike.
type Change struct {
	Time    time.Time
	Token   string
	Role    string
	Remote  string
	Method  string
	Request string // JSON without secrets
	Outcome string // ok, or the error; of queries and exports also what was sent
}

// Sink takes events; it must not block.
type Sink interface {
	Event(Event)
	Change(Change)
}
