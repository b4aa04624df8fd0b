package collect

import (
	"strings"

	"pillion.dev/measure"
)

// Connections is the schema, under a name, of a stream with a row for each connection
// that has ended; see Sample.
func Connections(name string) measure.Schema {
	return measure.Schema{Name: name, Doc: "connections of instrumented applications that have ended", Fields: []measure.Field{
		measure.TimeField,
		{Name: "begun", Type: measure.Time, Doc: "when it began"},
		{Name: "domain", Type: measure.String, Doc: "experiment"},
		{Name: "sender", Type: measure.String, Doc: "sender-id of the client"},
		{Name: "application", Type: measure.String, Doc: "name of the application"},
		{Name: "remote", Type: measure.String, Doc: "address of the client"},
		{Name: "oml_session", Type: measure.Uint64, Doc: "session of a client with acknowledgements; 0 for others"},
		{Name: "tuples", Type: measure.Uint64, Unit: "tuples", Doc: "accepted"},
		{Name: "again", Type: measure.Uint64, Unit: "tuples", Doc: "retransmitted duplicates"},
		{Name: "gaps", Type: measure.Uint64, Unit: "tuples", Doc: "sequence gaps: lost, or dropped by the client"},
		{Name: "faults", Type: measure.Uint64, Unit: "tuples", Doc: "unreadable"},
		{Name: "skipped_bytes", Type: measure.Uint64, Unit: "bytes", Doc: "of binary content outside packets"},
		{Name: "refused", Type: measure.Uint64, Unit: "tuples", Doc: "accepted, but not stored"},
		{Name: "reason", Type: measure.String, Doc: "why it ended; empty if the client closed it"},
	}}
}

// Sample is the row of a connection that has ended.
func (c Connection) Sample() measure.Sample {
	return measure.Sample{
		measure.TimeValue(c.Ended), measure.TimeValue(c.Begun), Text(c.Domain), Text(c.Sender), Text(c.App), Text(c.Remote),
		measure.Uint64Value(c.Session), measure.Uint64Value(c.Tuples), measure.Uint64Value(c.Again), measure.Uint64Value(c.Gaps),
		measure.Uint64Value(c.Faults), measure.Uint64Value(c.Skipped), measure.Uint64Value(c.Refused), Text(c.Reason),
	}
}

const textMax = 64 << 10

// Text is a value for the archive, of limited length and valid UTF-8.
func Text(s string) measure.Value {
	return measure.StringValue(strings.ToValidUTF8(s[:min(len(s), textMax)], "\uFFFD"))
}
