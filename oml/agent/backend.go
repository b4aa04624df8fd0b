// Package agent receives the measurements that instrumented applications on this host
// report by OML's protocol, and puts them into the agent's spool in the format of
// package relay.
//
// Data acknowledged to an application is on this host's disk: it survives a crash of the
// agent and reaches the server exactly once, however long the network is down, as long
// as the spool has room.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/oml/omsp/relay"
)

// Limits of the state that applications can create.
const (
	domainsMax = 1000
	// userDomains and userTables are the most domains and tables of one user.
	userDomains = 100
	userTables  = 200
	// endsEvery is how long ended connections are collected into one batch.
	endsEvery = 100 * time.Millisecond
)

// Backend is a collect.Backend that stores into the spool, and an application.AgentBackend.
type Backend struct {
	spool application.Spool
	log   *slog.Logger
	marks *marks
	ends  *measure.Stream

	filters application.Filters // or nil
	// filtered are the numbers of the last tuples, by session, that the filters have taken: after a disk error the
	// client sends them again.
	filtered map[markKey]int64
	// shared domains are open to all users of the host.
	shared map[string]bool

	mu      sync.Mutex
	domains map[string]*domain
	path    string // of the file of the owners of domains
}

// Open reads the progress of sessions from the agent's folder. Open the spool with
// Found and Recorded, then call Use.
func Open(folder string, shared []string, log *slog.Logger) (*Backend, error) {
	marks, err := openMarks(folder, log)
	if err != nil {
		return nil, err
	}
	b := &Backend{log: log, marks: marks, shared: map[string]bool{}, filtered: map[markKey]int64{}, domains: map[string]*domain{}, path: filepath.Join(folder, "oml.owners.json")}
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

// Filter sets the filters; call it before Use.
func (b *Backend) Filter(f application.Filters) { b.filters = f }

// Recorded is for spool.Options: it returns nil if the progress of all sessions is on the
// disk.
func (b *Backend) Recorded() error { return b.marks.recorded() }

// Collector returns the collector that serves applications.
func (b *Backend) Collector(feedback application.Feedback, log *slog.Logger) application.Collector {
	return collect.New(collect.Options{Backend: b, Log: log, Feedback: feedback})
}

// Origin returns domain and table of a relayed stream; false for any other and for metadata.
func (b *Backend) Origin(schema *measure.Schema) (domain, table string, ok bool) {
	origin, err := relay.OriginOf(schema)
	return origin.Domain, origin.Table.Name, err == nil && !origin.IsMetadata()
}

// Use sets the spool.
func (b *Backend) Use(s application.Spool) (err error) {
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

// Store implements collect.Backend: done is called when the spool has the batch on disk, or when the filters that
// take batches in place of the spool have it.
func (b *Backend) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	if b.filters == nil {
		b.keep(schema, record, done)
		return
	}
	fresh := b.unfiltered(schema, record)
	replaced := b.filters.Take(schema, fresh)
	fresh.Release()
	if !replaced {
		b.keep(schema, record, done)
		return
	}
	// The client may forget these tuples, and is asked for later ones from now on.
	seqs := map[uint64]int64{}
	lastOf(record, seqs)
	for session, seq := range seqs {
		if session != 0 {
			b.marks.record(session, measure.Key{Stream: schema.Name}, seq)
		}
	}
	done(nil)
}

// unfiltered is the part of a session's batch that the filters have not taken yet; it may
// be empty.
func (b *Backend) unfiltered(schema *measure.Schema, record arrow.RecordBatch) arrow.RecordBatch {
	sessions, numbers := record.Column(2).(*array.Uint64), record.Column(3).(*array.Int64)
	rows := record.NumRows()
	id, _ := streamID(schema.Name)
	key := markKey{session: sessions.Value(0), stream: id}
	if key.session == 0 {
		record.Retain()
		return record
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	from := int64(0)
	for from < rows && numbers.Value(int(from)) <= b.filtered[key] {
		from++
	}
	if len(b.filtered) >= marksMax {
		clear(b.filtered)
	}
	b.filtered[key] = max(b.filtered[key], numbers.Value(int(rows)-1))
	return record.NewSlice(from, rows)
}

// keep stores a batch in the spool. While writing fails, batches of clients without a session
// are delivered from memory: such clients send nothing twice.
func (b *Backend) keep(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	seqs := map[uint64]int64{}
	lastOf(record, seqs)
	delete(seqs, 0)
	if len(seqs) == 0 {
		err := b.spool.Put(schema, record)
		if err != nil {
			b.log.Warn("store OML tuples: they are lost", "rows", record.NumRows(), "error", err)
		}
		done(err)
		return
	}
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

// divide stores a batch as two halves; the batch is stored when both halves are.
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
		b.keep(schema, part, one)
		part.Release()
	}
}

// Ended implements collect.Backend.
func (b *Backend) Ended(c collect.Connection) {
	if b.filters != nil {
		b.filters.Ended(c.Domain, c.Sender)
	}
	if err := b.ends.Append(c.Sample()); err != nil {
		b.log.Warn("store the end of an OML connection", "error", err)
	}
}
