// Package relay says how tuples travel from an agent, to which an application of its
// host reported them, to the server.
//
// The agent cannot know which tables a domain has. So it sends each as a stream of
// its own, whose name follows from domain and schema, and which says in its
// descriptions what it is: the server finds the table, and the time base, when the
// tuples come. What comes off the bus is not trusted: a stream has one spelling only,
// and what differs from it is refused.
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
	"pillion.dev/omsp"
	"pillion.dev/omsp/collect"
)

// Prefix of the names of all streams that are relayed.
const Prefix = "omlx_"

// Limits, so that all fits into the descriptions of columns.
const (
	nameMax = 255 // bytes of the names of tables and fields
	// StartMax is the latest start of a client: further no clock of the archive goes.
	StartMax = 1 << 33
)

// ErrOrigin marks a stream that is not as Origin.Schema makes it.
var ErrOrigin = errors.New("bad relayed stream")

// Connections are those of applications to an agent, when they have ended.
var Connections = measure.Schema{Name: Prefix + "connections", Doc: "connections of instrumented applications that have ended", Fields: []measure.Field{
	measure.TimeField,
	{Name: "begun", Type: measure.Time},
	{Name: "domain", Type: measure.String},
	{Name: "sender", Type: measure.String},
	{Name: "application", Type: measure.String},
	{Name: "remote", Type: measure.String},
	{Name: "oml_session", Type: measure.Uint64},
	{Name: "tuples", Type: measure.Uint64},
	{Name: "again", Type: measure.Uint64},
	{Name: "gaps", Type: measure.Uint64},
	{Name: "faults", Type: measure.Uint64},
	{Name: "skipped_bytes", Type: measure.Uint64},
	{Name: "refused", Type: measure.Uint64},
	{Name: "reason", Type: measure.String},
}}

// Origin is what the tuples of a stream are.
type Origin struct {
	Domain string
	// Start is the agent's time base of the domain, seconds since 1970: times of
	// tuples are behind it.
	Start int64
	// Table has index 0. That with the fields of omsp.Metadata holds notes.
	Table omsp.Schema
}

// IsMetadata reports whether the tuples are notes.
func (o Origin) IsMetadata() bool { return o.Table.Same(omsp.Metadata) }

// Places of what an origin consists of: the start and the table's name in the
// stream's description, the domain in that of the second column, the fields in theirs.
const (
	docFormat   = "oml 1 %d %s"
	domainField = 1
	fieldMark   = " as "
)

// Schema is the stream of an origin, the same for the same origin for ever; its name
// is that of all origins that differ in the start only.
func (o Origin) Schema() (*measure.Schema, error) {
	o.Domain, o.Table.Index = strings.ToValidUTF8(o.Domain, "\uFFFD"), 0
	if o.Start < 0 || o.Start > StartMax {
		return nil, fmt.Errorf("%w: start %d", ErrOrigin, o.Start)
	}
	if !omsp.ValidName(o.Table.Name) || len(o.Table.Name) > nameMax {
		return nil, fmt.Errorf("%w: name of table %.80q: at most %d letters, digits and _", ErrOrigin, o.Table.Name, nameMax)
	}
	for _, f := range o.Table.Fields {
		if !omsp.ValidName(f.Name) || len(f.Name) > nameMax {
			return nil, fmt.Errorf("%w: name of field %.80q: at most %d letters, digits and _", ErrOrigin, f.Name, nameMax)
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

// OriginOf reads what Schema made. Every fault is ErrOrigin.
func OriginOf(s *measure.Schema) (Origin, error) {
	var o Origin
	var err error
	bad := func(what string) (Origin, error) {
		return Origin{}, fmt.Errorf("%w: %s", ErrOrigin, what)
	}
	words := strings.Split(s.Doc, " ")
	if len(words) != 4 || words[0] != "oml" || words[1] != "1" {
		return bad("its description is of another kind; is the server older than the agent?")
	}
	if o.Start, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		return bad("its start is no number")
	}
	o.Table.Name = words[3]
	before := len(collect.Columns())
	if len(s.Fields) < before {
		return bad("it lacks columns of every tuple")
	}
	if o.Domain, err = strconv.Unquote(s.Fields[domainField].Doc); err != nil {
		return bad("its domain cannot be read")
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
		return bad("its name or columns are not those of its domain and table")
	}
	return o, nil
}
