package archive

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
)

// Arrivals is an archive that passes on the rows of the streams in Options.Arrivals in the order in which they were
// stored, each once.
type Arrivals interface {
	Archive
	// LastArrival is the mark of the rows of a stream that were stored last; 0: none were.
	LastArrival(ctx context.Context, stream string) (mark uint64, err error)
	// Arrived passes the rows of a stream that were stored after a mark, whole commits at a time, until there are
	// at least so many rows as asked for. The archive may forget the marks below it: marks of one stream must not
	// descend.
	Arrived(ctx context.Context, stream string, after uint64, most int64, rows func(arrow.RecordBatch) error) (Arrived, error)
}

// Arrived is what a call of Arrivals.Arrived passed.
type Arrived struct {
	// Mark of the last rows; without rows, the mark in the call.
	Mark uint64
	Rows int64
	// Removed rows were stored after the mark, but retention has removed them since.
	Removed int64
	// More: there are rows after Mark.
	More bool
}
