package archive

import "context"

// RolledUp is an archive that keeps roll-ups of the stream flows: sums of its rows in windows of time.
type RolledUp interface {
	// RollUps lists them as streams, with the retention that is in force. SetRetention sets it, by their
	// names; they are limited by age only.
	RollUps(ctx context.Context) ([]Stream, error)
}
