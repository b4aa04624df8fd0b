// Package store keeps the state that all servers of a fleet share: agents, sessions,
// assignments, tokens, revocations and the tables of applications. A collection has items,
// which are JSON, by key.
//
// A single server keeps each collection in a file of its data directory. Several servers keep
// them in a key-value bucket of their NATS cluster, where an item is written only if
// nobody else has written it since it was read.
//
// It does not know what the items mean.
package store

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"pillion.dev/bus"
)

// ErrChanged is an item that another server has written since this one last read or wrote it:
// the caller loads the collection again, and repeats its change.
var ErrChanged = bus.ErrChanged

// Store is safe for concurrent use.
type Store interface {
	// Load returns all items of a collection. The caller does not change them.
	Load(ctx context.Context, collection string) (map[string][]byte, error)
	// Write replaces items and leaves the others as they are; a nil item is deleted. Each item
	// is replaced as a whole or not at all, but after an error some of them may be replaced:
	// the caller writes all of them again.
	Write(ctx context.Context, collection string, items map[string][]byte) error
	// Follow calls changed for each item that another server writes or has written since the
	// collection was last loaded, nil if it was deleted, until the context ends. It holds the lock
	// meanwhile, as the caller does while it loads and writes: so it makes no newer state older.
	Follow(ctx context.Context, collection string, lock sync.Locker, changed func(key string, item []byte)) error
	// Shared reports whether other servers may write.
	Shared() bool
}

// Whole is the key of the only item of a collection.
const Whole = "whole"

// Key returns the key of an item of a section.
func Key(section, own string) string { return section + "/" + own }

// Own splits the key of an item into the key of its section and its own key.
func Own(key string) (section, own string) {
	section, own, _ = strings.Cut(key, "/")
	return section, own
}

// Position is the key of an item that is sorted by number.
func Position(number uint64) string { return fmt.Sprintf("%012d", number) }
