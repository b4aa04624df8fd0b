// Package omsp speaks the OML Measurement Stream Protocol, versions 1 to 5, by
// which instrumented applications report tuples to a collection server: a header
// of text lines, then tuples as text lines or as binary packets.
//
// It reads what real clients send, also where they are sloppy, and says what it
// could not read instead of dropping it. It knows neither the archive nor the
// network: a Reader works on any io.Reader, a Writer on any io.Writer.
package omsp

import "errors"

// Protocol versions that are understood.
const (
	MinProtocol = 1
	MaxProtocol = 5
)

// Faults that callers tell apart.
var (
	// ErrHeader is a connection whose header cannot be read; nothing can follow.
	ErrHeader = errors.New("bad header")
	// ErrTuple is one tuple that cannot be read; reading can go on behind it.
	ErrTuple = errors.New("bad tuple")
	// ErrLimit is something larger than the limits allow; nothing can follow.
	ErrLimit = errors.New("beyond the limits")
)

// Limits bound what one connection can make a Reader hold. Zero: the default.
type Limits struct {
	// Line is the longest line of text, or binary packet, bytes; default 1 MiB.
	Line int
	// Header is the size of all header lines, bytes; default 256 KiB.
	Header int
	// Schemas is the number of streams; default 255, which is what the binary form can name.
	Schemas int
	// Fields is the number of fields of a stream; default 255, for the same reason.
	Fields int
}

func (l Limits) complete() Limits {
	for _, set := range []struct {
		to        *int
		otherwise int
	}{{&l.Line, 1 << 20}, {&l.Header, 256 << 10}, {&l.Schemas, 255}, {&l.Fields, 255}} {
		if *set.to <= 0 {
			*set.to = set.otherwise
		}
	}
	return l
}
