// Package relay defines how an agent forwards tuples of its host's applications to the
// server.
//
// The agent cannot know which tables a domain has. So it sends each as a separate
// stream whose name is derived from domain and schema, and whose field descriptions
// carry them: the server maps it to a table and a start time when the tuples arrive.
// Input from the bus is untrusted: only the canonical form of a stream is accepted.
package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
)

// Prefix of the names of relayed streams.
const Prefix = application.RelayedPrefix

// Limits, so that everything fits into the descriptions of columns.
const (
	nameMax = 255 // bytes of the names of tables and fields
	// StartMax is the latest start of a client: the range of the archive's timestamps.
	StartMax = 1 << 33
)

// ErrOrigin marks an invalid relayed stream.
var ErrOrigin = errors.New("invalid relayed stream")

// Connections has a row for each connection of an application that has ended.
var Connections = collect.Connections(Prefix + "connections")

// Origin identifies the tuples of a relayed stream.
type Origin struct {
	Domain string
	// Start is the agent's start of the domain, seconds since 1970: times of tuples are
	// relative to it.
	Start int64
	// Table has index 0. With the fields of omsp.Metadata it is metadata.
	Table omsp.Schema
}

// IsMetadata reports whether the tuples are metadata.
func (o Origin) IsMetadata() bool { return o.Table.Same(omsp.Metadata) }

// An origin is encoded in descriptions: the start and the name of the table in the description of the
// stream, the domain in the description of its second column, and the fields in the descriptions of theirs.
const (
	docFormat   = "oml 1 %d %s"
	domainField = 1
	fieldMark   = " as "
)

// Schema returns the stream of an origin, deterministically; its name does not depend on
// the start.
func (o Origin) Schema() (*measure.Schema, error) {
	o.Domain, o.Table.Index = strings.ToValidUTF8(o.Domain, "\uFFFD"), 0
	if o.Start < 0 || o.Start > StartMax {
		return nil, fmt.Errorf("%w: start %d", ErrOrigin, o.Start)
	}
	if !omsp.ValidName(o.Table.Name) || len(o.Table.Name) > nameMax {
		return nil, fmt.Errorf("%w: table name %.80q: use at most %d letters, digits and _", ErrOrigin, o.Table.Name, nameMax)
	}
	for _, f := range o.Table.Fields {
		if !omsp.ValidName(f.Name) || len(f.Name) > nameMax {
			return nil, fmt.Errorf("%w: field name %.80q: use at most %d letters, digits and _", ErrOrigin, f.Name, nameMax)
		}
	}
	sum := sha256.Sum256([]byte(o.Domain + "\x00" + o.Table.String()))
	s, err := collect.SchemaOf(Prefix+hex.EncodeToString(sum[:16]), fmt.Sprintf(docFormat, o.Start, o.Table.Name), o.Table)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOrigin, err)
	}
	s.Fields[domainField].Doc = strconv.Quote(o.Domain)
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: domain %.80q...: %w", ErrOrigin, o.Domain, err)
	}
	return s, nil
}

// OriginOf is the inverse of Schema. Every error is ErrOrigin.
func OriginOf(s *measure.Schema) (Origin, error) {
	var o Origin
	var err error
	bad := func(what string) (Origin, error) {
		return Origin{}, fmt.Errorf("%w: %s", ErrOrigin, what)
	}
	words := strings.Split(s.Doc, " ")
	if len(words) != 4 || words[0] != "oml" || words[1] != "1" {
		return bad("unknown description; is the server older than the agent?")
	}
	if o.Start, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		return bad("start is not a number")
	}
	o.Table.Name = words[3]
	before := len(collect.Columns())
	if len(s.Fields) < before {
		return bad("missing columns")
	}
	if o.Domain, err = strconv.Unquote(s.Fields[domainField].Doc); err != nil {
		return bad("unreadable domain")
	}
	for _, f := range s.Fields[before:] {
		name, kind, _ := strings.Cut(f.Doc, fieldMark)
		t, err := omsp.ParseType(kind)
		if err != nil {
			return Origin{}, fmt.Errorf("%w: %w", ErrOrigin, err)
		}
		o.Table.Fields = append(o.Table.Fields, omsp.Field{Name: name, Type: t})
	}
	again, err := o.Schema()
	if err != nil {
		return Origin{}, err
	}
	if !reflect.DeepEqual(again, s) {
		return bad("name or columns do not match domain and table")
	}
	return o, nil
}
