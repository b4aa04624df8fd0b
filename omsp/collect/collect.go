// Package collect is the collector's side of OMSP: it takes connections of
// instrumented applications, turns their tuples into batches of streams, and hands
// those to whoever keeps them.
//
// Clients of Pillion's own say who they are by a session and are answered: what of
// theirs is on disk, so that they send each tuple until it is, and it is stored
// once. Clients of others never get a byte: they would take it for the end of the
// connection. In the flow it stands between applications and the archive.
package collect

import (
	"context"
	"log/slog"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
	"pillion.dev/omsp"
)

// Table is what one stream of one domain is called where it is kept.
type Table struct {
	// Name that OML's users know: the stream's, or with _2 and so on where the domain
	// has that name with other fields already.
	Name string
	// Schema of the stream of the archive, with the columns of every tuple before
	// the fields.
	Schema *measure.Schema
	// Before are the texts of columns between these two, the same for all tuples.
	Before []string
}

// Backend keeps tuples. All methods may be called at once.
type Backend interface {
	// Table finds or makes the table of a stream of a domain; omsp.Metadata is one.
	Table(domain string, schema omsp.Schema) (Table, error)
	// Start is when a domain's time begins, seconds since 1970: the start of its
	// first client.
	Start(domain string, start int64) (int64, error)
	// Stored is the number of the last tuple of a session that a table has; 0: none.
	Stored(ctx context.Context, session uint64, table Table) (int64, error)
	// Store takes a batch; done is called once, with nil when it is on disk. It may
	// wait while too much is under way.
	Store(schema *measure.Schema, record arrow.RecordBatch, done func(error))
	// Ended keeps what became of a connection.
	Ended(Connection)
}

// Connection is what became of one.
type Connection struct {
	Begun, Ended                time.Time
	Domain, Sender, App, Remote string
	Session                     uint64
	// Tuples that were taken, Again those that were there already, Gaps numbers that
	// were left out, Faults tuples that could not be read, Skipped bytes of binary
	// content that were no packet, Refused tuples that were taken and not kept.
	Tuples, Again, Gaps, Faults, Skipped, Refused uint64
	// Reason of its end; empty where the client ended it.
	Reason string
}

// Options of a Collector. Zero: the default.
type Options struct {
	Backend Backend
	Log     *slog.Logger
	Limits  omsp.Limits
	// Connections that may be open at once on one listener; default 256.
	Connections int
	// Rows of a batch; default 20,000.
	Rows int
	// Linger is how long a tuple waits for more; default 200 ms.
	Linger time.Duration
	// Outstanding batches of one connection that are not on disk; default 24. Then
	// the connection is not read, and the client notices.
	Outstanding int
	// Idle ends a connection that sends no header for so long; default 30 s.
	Idle time.Duration

	audience *audience // the collector's

	// Grace is how long Close waits for what came to be on disk; default 15 s.
	Grace time.Duration
}

func (o Options) complete() Options {
	if o.Connections <= 0 {
		o.Connections = 256
	}
	if o.Rows <= 0 {
		o.Rows = 20_000
	}
	if o.Linger <= 0 {
		o.Linger = 200 * time.Millisecond
	}
	if o.Outstanding <= 0 {
		o.Outstanding = 24
	}
	if o.Idle <= 0 {
		o.Idle = 30 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 15 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
