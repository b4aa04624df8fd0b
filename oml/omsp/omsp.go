// Package omsp speaks the OML Measurement Stream Protocol, versions 1 to 5, by
// which instrumented applications report tuples to a collection server: a header
// of text lines, then tuples as text lines or as binary packets.
//
// It accepts what real clients send, including common deviations from the protocol,
// and reports what it cannot read instead of dropping it. It knows neither the archive
// nor the network: a Reader works on any io.Reader, Append on any buffer.
package omsp

import (
	"cmp"
	"errors"
)

// Supported protocol versions.
const (
	MinProtocol = 1
	MaxProtocol = 5
)

// Errors that callers distinguish.
var (
	// ErrHeader is an unreadable header; reading cannot continue.
	ErrHeader = errors.New("bad header")
	// ErrTuple is an unreadable tuple; reading can continue after it.
	ErrTuple = errors.New("bad tuple")
	// ErrLimit is an exceeded limit; reading cannot continue.
	ErrLimit = errors.New("limit exceeded")
)

// Limits bound the memory of a Reader. Zero: the default.
type Limits struct {
	// Line is the longest line of text, or binary packet, bytes; default 1 MiB.
	Line int
	// Header is the size of all header lines, bytes; default 256 KiB.
	Header int
	// Schemas is the number of streams; default 255, the maximum of the binary form.
	Schemas int
	// Fields is the number of fields of a stream; default 255, for the same reason.
	Fields int
}

func (l Limits) complete() Limits {
	return Limits{
		Line: cmp.Or(max(l.Line, 0), 1<<20), Header: cmp.Or(max(l.Header, 0), 256<<10),
		Schemas: cmp.Or(max(l.Schemas, 0), 255), Fields: cmp.Or(max(l.Fields, 0), 255),
	}
}
