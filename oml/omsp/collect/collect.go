// Package collect is the collector's side of OMSP: it accepts connections of
// instrumented applications, converts their tuples to batches of streams, and passes
// those to a backend.
//
// Pillion's clients send a session identifier and get acknowledgements of tuples on
// disk; they retransmit the others, and each tuple is stored exactly once. Other
// clients never get a byte: they would take it for the end of the connection. In the
// flow it is between applications and the archive.
package collect

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
)

// Table is how the backend stores one stream of one domain.
type Table struct {
	// Name in OML: the stream's, with _2 and so on if the domain already has that name
	// with other fields.
	Name string
	// Schema of the archive's stream: Columns, Before, then the fields.
	Schema *measure.Schema
	// Before are constant values of the columns between Columns and the fields.
	Before []string
}

// Backend stores tuples. Its methods are called concurrently.
type Backend interface {
	// Table finds or creates the table of a stream of a domain; omsp.Metadata is one.
	Table(domain string, schema omsp.Schema) (Table, error)
	// Start returns the start time of a domain, seconds since 1970: the start time of its
	// first client.
	Start(domain string, start int64) (int64, error)
	// Stored returns the last stored sequence number of a session in a table; 0: none.
	Stored(ctx context.Context, session uint64, table Table) (int64, error)
	// Store stores a batch; done is called once, with nil when it is on disk. It may
	// block while too many are pending.
	Store(schema *measure.Schema, record arrow.RecordBatch, done func(error))
	// Ended records a connection that has ended.
	Ended(Connection)
}

// Connection has the counters of one connection.
type Connection struct {
	Begun, Ended                time.Time
	Domain, Sender, App, Remote string
	// Source is as of SourceOf.
	Source  string
	Session uint64
	// Tuples accepted, Again retransmitted duplicates, Gaps missing sequence numbers,
	// Faults unreadable tuples, Skipped bytes of binary content outside packets,
	// Refused tuples accepted but not stored.
	Tuples, Again, Gaps, Faults, Skipped, Refused uint64
	// Reason why it ended; empty if the client closed it.
	Reason string
}

// Options of a Collector. Zero: the default.
type Options struct {
	Backend Backend
	Log     *slog.Logger
	Limits  omsp.Limits
	// Connections limits open connections per listener; default 256.
	Connections int
	// PerSource limits open connections of one source (SourceOf); default 64.
	PerSource int
	// Refused, if set, is called with what is refused from a source because of a quota.
	Refused func(source string, err error)
	// Rows of a batch; default 20,000.
	Rows int
	// Linger is how long a tuple may wait for a batch to fill; default 200 ms.
	Linger time.Duration
	// Feedback is how clients are asked to send less; default application.FeedbackThin.
	Feedback application.Feedback
	// Outstanding limits pending batches of a connection; default 24. At the limit the
	// connection is not read, which applies back-pressure to the client.
	Outstanding int
	// Idle is the timeout for the header; default 30 s.
	Idle time.Duration

	audience *audience // the collector's

	// Grace is how long Close waits for received tuples to be stored; default 15 s.
	Grace time.Duration
}

func (o Options) complete() Options {
	o.Feedback = cmp.Or(o.Feedback, application.FeedbackThin)
	o.PerSource = cmp.Or(o.PerSource, 64)
	if o.Refused == nil {
		o.Refused = func(string, error) {}
	}
	o.Connections, o.Rows, o.Outstanding = cmp.Or(o.Connections, 256), cmp.Or(o.Rows, 20_000), cmp.Or(o.Outstanding, 24)
	o.Linger, o.Idle = cmp.Or(o.Linger, 200*time.Millisecond), cmp.Or(o.Idle, 30*time.Second)
	o.Grace = cmp.Or(o.Grace, 15*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
