// Package report delivers the rows of tools that are run by hand: to a terminal, or to the collector
// that a wing of the program registers.
//
// It is independent of the tools. An agent that has joined a server does not use it: its
// rows go through the spool.
package report

import (
	"context"
	"errors"
	"fmt"

	"pillion.dev/measure"
)

// Options of a Report.
type Options struct {
	// URI of the collector: [tcp:[//]]HOST[:PORT], file:PATH, or file:- for standard
	// output.
	URI string
	// App is the application. The collector adds it to table names, so that the prefix
	// App_ of a point's name is removed.
	App            string
	Domain, Sender string
	// Points are all points that will be reported.
	Points []*measure.Schema
}

// ErrURI marks an invalid collector address.
var ErrURI = errors.New("invalid collector address")

// Report takes rows and notes. It is not safe for concurrent use.
type Report interface {
	// Put reports a row. It does not wait for the network.
	Put(schema *measure.Schema, sample measure.Sample) error
	// Note reports metadata.
	Note(key, value string) error
	// Room waits until there is room for more rows, or the context ends.
	Room(ctx context.Context) error
	// Close waits until the collector has everything or the context ends; the error says
	// what it does not have.
	Close(ctx context.Context) error
}

var collector func(Options) (Report, error)

// Register sets what opens a report to a collector or file.
func Register(open func(Options) (Report, error)) { collector = open }

// Open opens a report to a collector or file; ErrURI marks an address that is invalid, and any if this
// program has no collector.
func Open(o Options) (Report, error) {
	if collector == nil {
		return nil, fmt.Errorf("%w: %q: this program was built without collectors", ErrURI, o.URI)
	}
	return collector(o)
}
