package archive

import (
	"context"
	"errors"
)

// ErrFenced is a lane that another server has taken over. What the lane was storing when it
// was returned may be stored or not: its batches must not be acknowledged, and their
// senders send them again.
var ErrFenced = errors.New("lane taken over by another server")

// Laned is an archive that several servers write at once, each its own lanes. All batches of
// an agent belong to one lane, which has the state by which they are stored once.
type Laned interface {
	Archive
	// OpenLane makes the caller the only writer of a lane: what earlier owners have under way
	// is ended before it reads which batches are stored. Owners of a lane have ascending
	// numbers; ErrFenced is returned to all but the highest.
	OpenLane(ctx context.Context, lane int, owner uint64) (Lane, error)
}

// Lane stores the batches of some agents. Store is called for one group at a time.
type Lane interface {
	// Store stores batches as Archive.Store does, or returns ErrFenced, after which the lane is useless. After
	// another error the same batches may be stored again.
	Store(ctx context.Context, batches []Batch) (stored []bool, rejected map[int]error, err error)
	// Close forgets the lane, once a Store that is under way has returned; it does not wait for
	// another owner. Store fails afterwards.
	Close() error
}
