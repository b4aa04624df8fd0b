package validation

import (
	"fmt"
	"time"

	"pillion.dev/probe/source"
	"pillion.dev/session"
)

// A Path is a destination, an encoding, and what is known about packets to it.
type Path struct {
	source.Path
	State State
	Since time.Time
	// MTU is the size of the largest marked packet that arrives, bytes, if larger ones that
	// fit the device do not and no router reports it; otherwise 0.
	MTU int
	// Tagged: marks carry tags, which are not accepted from a host with another time.
	Tagged bool
	// Silent: the path passed, and nothing is answered any more. It is used for some time nevertheless.
	Silent bool
}

// Found is the state, but Unanswered where a path is used although nothing is answered any more.
func (p Path) Found() State {
	if p.Silent {
		return Unanswered
	}
	return p.State
}

// Text says what is known.
func (p Path) Text() string {
	found := p.Found()
	text := fmt.Sprintf("path to %s, encoding %s: %s: %s", p.Address, p.Encoding, found, found.Text())
	if found == Unanswered {
		text = string(session.NotReachable) + text
	}
	if p.State == Passed && p.MTU != 0 {
		text += fmt.Sprintf(", up to %d bytes", p.MTU)
	}
	if p.Tagged && (p.State == Failed || p.State == Altered) {
		text += "; " + session.ClocksMatter
	}
	return text
}
