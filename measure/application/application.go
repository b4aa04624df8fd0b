// Package application is what agents and servers know of applications that report measurements of
// their own: names of streams, and the code that a wing registers to receive what they report. The
// wing oml does, by OML's protocol.
package application

import (
	"log/slog"
	"net"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
)

const (
	// Prefix begins the names that the server gives to streams of applications, and RelayedPrefix
	// those that agents give to streams before the server has named them.
	Prefix        = "oml_"
	RelayedPrefix = "omlx_"
	// Tables is the stream that maps streams to tables of applications.
	Tables = Prefix + "tables"
	// Collection is the state of the server about applications.
	Collection = "oml"
)

// Collector receives what applications report.
type Collector interface {
	// Serve accepts connections of a listener, which it closes, until Close. Applications must
	// present the token, unless it is empty.
	Serve(listener net.Listener, token string) error
	// Thin asks applications to send 1 of n samples.
	Thin(n int)
	Close()
}

// Filters take the tuples of applications on their way into the spool of an agent.
type Filters interface {
	// Take takes a batch of one connection's tuples, and reports whether its results
	// replace the tuples, which then are not stored. It must not keep the batch.
	Take(schema *measure.Schema, record arrow.RecordBatch) (replaced bool)
	// Ended says that a connection of a sender has ended.
	Ended(domain, sender string)
}

// Spool is the part of an agent's spool that stores what applications report.
type Spool interface {
	Put(schema *measure.Schema, record arrow.RecordBatch) error
	Hold(schema *measure.Schema, record arrow.RecordBatch, kept func(measure.Key, error)) error
}

// AgentBackend stores what applications of a host report in the spool of its agent.
type AgentBackend interface {
	// Found and Recorded are for the options of the spools.
	Found(e measure.Envelope)
	Recorded() error
	// Filter sets the filters; call it before Use, which sets the spool.
	Filter(f Filters)
	Use(s Spool) error
	// Collector makes what serves applications.
	Collector(feedback Feedback, log *slog.Logger) Collector
	// Origin returns domain and table of a relayed stream; false for any other and for metadata.
	Origin(schema *measure.Schema) (domain, table string, ok bool)
	// Close flushes to the spool. Forget closes the files, after the spool was closed.
	Close() error
	Forget() error
}
