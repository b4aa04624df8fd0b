// Package transfer copies an archive into another one: streams with their retention, who
// created or extended them, the states by which batches are stored once, and all rows. A copy
// that was interrupted at any point goes on where it stopped, and each row is copied once.
//
// In the flow it is beside the server: it runs while no server stores rows in the source. It
// does not know how archives keep rows; they implement Source and Target.
package transfer

import (
	"context"
	"errors"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/archive"
	"pillion.dev/archive/ledger"
)

// Errors that callers distinguish.
var (
	// ErrOpened is a target in which servers have stored batches, or may, without having the
	// delivery states of the source.
	ErrOpened = errors.New("servers have used the new archive before the delivery states were copied")
	// ErrContinued is a source in which batches were stored after servers used the target.
	ErrContinued = errors.New("the old server has stored batches since servers use the new archive")
)

// Source is an archive that can be copied, in which nothing is stored meanwhile.
type Source interface {
	archive.Archive
	// Deliveries are the delivery states of all senders, which must not be changed.
	Deliveries() map[ledger.Sender]*ledger.Delivery
	// Shapes are the numbers of columns that agents added, as in ledger.Catalog.
	Shapes() map[string]map[string]int
	// Agents are those with rows of a stream.
	Agents(ctx context.Context, stream string) ([]string, error)
	// Ranges divide the rows of a stream that arrived at a time (ns since 1970) or later, of
	// all agents or of some. A range is within one day (UTC).
	Ranges(ctx context.Context, stream string, agents []string, from int64) ([]Range, error)
	// ByArrival passes the rows of a range in the order of their arrival; rows that arrived at the same time always
	// come in the same order. Their columns are the agent and the columns of the stream, with the time of arrival.
	ByArrival(ctx context.Context, stream string, agents []string, of Range, rows func(arrow.RecordBatch) error) error
}

// Range has the rows that arrived From (inclusive) To (exclusive), ns since 1970.
type Range struct{ From, To, Rows int64 }

// Target is an archive that can receive a copy.
type Target interface {
	archive.Archive
	// Receive prepares to receive a copy of the source of that name. It ends what an earlier Receiver of the same
	// source has under way. lane returns the lane of an agent's batches; nil if the target is the archive of a
	// single server.
	Receive(ctx context.Context, source string, lane func(agent string) uint64) (Receiver, error)
}

// Receiver stores a copy. Agents are divided into parts, whose rows are copied separately.
type Receiver interface {
	// Define creates streams or extends them, and sets their retention where there is none.
	Define(ctx context.Context, streams []archive.Stream, shapes map[string]map[string]int) error
	// SetDeliveries stores the delivery states. Without stopped, which says that no server uses
	// the target, it returns ErrOpened if one has done so.
	SetDeliveries(ctx context.Context, states map[ledger.Sender]*ledger.Delivery, stopped bool) error
	// Parts divides agents: each part has the agents of one element; nil stands for all.
	Parts(agents []string) [][]string
	// Position is how far a part of a stream is copied. Write may be called afterwards, until it fails.
	Position(ctx context.Context, stream string, part int) (Position, error)
	// Write stores rows with the columns that Source.ByArrival passes, all or none of them.
	Write(ctx context.Context, stream string, part int, rows []arrow.RecordBatch) error
	// Finish notes that a part is complete: retention may remove its rows.
	Finish(ctx context.Context, stream string, part int) error
}

// Position is how far a part of a stream is copied, in the order of arrival.
type Position struct {
	// Arrived is the time of arrival of the last row, ns since 1970.
	Arrived int64
	// Same are the rows of that time, Rows all of them.
	Same, Rows int64
}
