// Package oml receives the measurements that instrumented applications on this host
// report by OML's protocol, and puts them into the agent's spool in the format of
// package relay.
//
// Data acknowledged to an application is on this host's disk: it survives a crash of the
// agent and reaches the server exactly once, however long the network is down, as long
// as the spool has room.
package oml

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/omsp/collect"
	"pillion.dev/omsp/relay"
)

// Spool is the part of spool.Spool that this package uses.
type Spool interface {
	Put(schema *measure.Schema, record arrow.RecordBatch) error
	Hold(schema *measure.Schema, record arrow.RecordBatch, kept func(measure.Key, error)) error
}

// Limits of the state that applications can create.
const (
	domainsMax = 1000
	// userDomains and userTables are the shares of one user.
	userDomains = 100
	userTables  = 200
	// endsEvery is how long ended connections are collected into one batch.
	endsEvery = 100 * time.Millisecond
)

// Backend is a collect.Backend that stores into the spool.
type Backend struct {
	spool Spool
	log   *slog.Logger
	marks *marks
	ends  *measure.Stream

	// shared domains are open to all users of the host.
	shared map[string]bool

	mu      sync.Mutex
	domains map[string]*domain
	path    string // of the owners
}

// Open reads the progress of sessions from the agent's folder. Open the spool with
// Found, then call Use.
func Open(folder string, shared []string, log *slog.Logger) (*Backend, error) {
	marks, err := openMarks(folder, log)
	if err != nil {
		return nil, err
	}
	b := &Backend{log: log, marks: marks, shared: map[string]bool{}, domains: map[string]*domain{}, path: filepath.Join(folder, "oml.owners.json")}
	for _, name := range shared {
		b.shared[name] = true
	}
	if err := b.loadOwners(); err != nil {
		return nil, errors.Join(err, marks.close())
	}
	return b, nil
}

// Found is for spool.Options: it examines the batches that an earlier process left.
func (b *Backend) Found(e measure.Envelope) { b.marks.found(e) }

// Use sets the spool.
func (b *Backend) Use(s Spool) (err error) {
	b.spool = s
	b.ends, err = measure.NewStream(&relay.Connections, measure.StreamOptions{Interval: endsEvery}, s.Put)
	return err
}

// Close flushes to the spool. Nothing may be stored afterwards.
func (b *Backend) Close() error {
	if b.ends == nil {
		return nil
	}
	return b.ends.Close()
}

// Forget closes the files, after the spool was closed.
func (b *Backend) Forget() error { return b.marks.close() }

// Stored implements collect.Backend.
func (b *Backend) Stored(_ context.Context, session uint64, t collect.Table) (int64, error) {
	return b.marks.last(session, t.Schema.Name), nil
}

// Store implements collect.Backend: done is called when the spool has the batch on disk.
func (b *Backend) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	seqs := map[uint64]int64{}
	lastOf(record, seqs)
	err := b.spool.Hold(schema, record, func(key measure.Key, err error) {
		if err == nil {
			for session, seq := range seqs {
				b.marks.record(session, key, seq)
			}
		}
		done(err)
	})
	switch rows := record.NumRows(); {
	case errors.Is(err, spool.ErrTooLarge) && rows > 1:
		b.divide(schema, record, done)
	case err != nil:
		b.log.Warn("store OML tuples: they are lost", "rows", rows, "error", err)
		done(err)
	}
}

// divide stores the halves of a batch; it is stored when both are.
func (b *Backend) divide(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	var mu sync.Mutex
	var failed error
	left := 2
	one := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, err)
		if left--; left == 0 {
			done(failed)
		}
	}
	rows := record.NumRows()
	for _, part := range []arrow.RecordBatch{record.NewSlice(0, rows/2), record.NewSlice(rows/2, rows)} {
		b.Store(schema, part, one)
		part.Release()
	}
}

// Ended implements collect.Backend.
func (b *Backend) Ended(c collect.Connection) {
	if err := b.ends.Append(c.Sample()); err != nil {
		b.log.Warn("store the end of an OML connection", "error", err)
	}
}
