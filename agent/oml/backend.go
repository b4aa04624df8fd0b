// Package oml takes what instrumented applications of this host report by OML's
// protocol, and puts it into the agent's spool, as package relay says.
//
// What an application was told to be stored is on this host's disk: it survives the
// death of the agent, and the server gets it once, however long the network is away,
// as long as the spool has room.
package oml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/agent/spool"
	"pillion.dev/measure"
	"pillion.dev/omsp"
	"pillion.dev/omsp/collect"
	"pillion.dev/omsp/relay"
)

// Spool is what of spool.Spool this package asks for.
type Spool interface {
	Put(schema *measure.Schema, record arrow.RecordBatch) error
	Hold(schema *measure.Schema, record arrow.RecordBatch, kept func(measure.Key, error)) error
}

// Limits of what applications can make the agent remember.
const (
	domainsMax = 1000
	tablesMax  = 1000
	// noteEvery is how long the end of a connection waits for others.
	noteEvery = 100 * time.Millisecond
)

// Backend is a collect.Backend whose archive is the spool.
type Backend struct {
	spool Spool
	log   *slog.Logger
	marks *marks
	ends  *measure.Stream

	mu     sync.Mutex
	starts map[string]int64 // by domain
	tables map[string]collect.Table
}

// Open reads how far sessions have come from the agent's folder. The backend needs
// Found for opening the spool, and then Use.
func Open(folder string, log *slog.Logger) (*Backend, error) {
	marks, err := openMarks(folder, log)
	if err != nil {
		return nil, err
	}
	return &Backend{
		log: log, marks: marks, starts: map[string]int64{}, tables: map[string]collect.Table{},
	}, nil
}

// Found is for spool.Options: it finds what an earlier process left there.
func (k *Backend) Found(e measure.Envelope) { k.marks.found(e) }

// Use begins to keep in a spool.
func (k *Backend) Use(s Spool) (err error) {
	k.spool = s
	k.ends, err = measure.NewStream(&relay.Connections, measure.StreamOptions{Interval: noteEvery}, s.Put)
	return err
}

// Close puts what is left into the spool. Nothing may be kept afterwards.
func (k *Backend) Close() error {
	if k.ends == nil {
		return nil
	}
	return k.ends.Close()
}

// Forget closes the files; the spool is closed before.
func (k *Backend) Forget() error { return k.marks.close() }

// Start implements collect.Backend. The server alone knows when a domain begins; until
// it shifts times, they are behind the start of the first client here.
func (k *Backend) Start(domain string, start int64) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.starts[domain]; ok {
		return known, nil
	}
	if len(k.starts) >= domainsMax {
		return 0, fmt.Errorf("begin domain %.80q: there are %d already", domain, domainsMax)
	}
	if _, err := (relay.Origin{Domain: domain, Start: start, Table: omsp.Metadata}).Schema(); err != nil {
		return 0, err
	}
	k.starts[domain] = start
	return start, nil
}

// Table implements collect.Backend.
func (k *Backend) Table(domain string, s omsp.Schema) (collect.Table, error) {
	s.Index = 0 // that is the client's own
	k.mu.Lock()
	defer k.mu.Unlock()
	key := domain + "\x00" + s.String()
	if known, ok := k.tables[key]; ok {
		return known, nil
	}
	if len(k.tables) >= tablesMax {
		return collect.Table{}, fmt.Errorf("begin table %s: there are %d already", s.Name, tablesMax)
	}
	schema, err := relay.Origin{Domain: domain, Start: k.starts[domain], Table: s}.Schema()
	if err != nil {
		return collect.Table{}, err
	}
	t := collect.Table{Name: s.Name, Schema: schema}
	k.tables[key] = t
	return t, nil
}

// Stored implements collect.Backend.
func (k *Backend) Stored(_ context.Context, session uint64, t collect.Table) (int64, error) {
	return k.marks.last(session, t.Schema.Name), nil
}

// Store implements collect.Backend: on disk is what the spool has there.
func (k *Backend) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	seqs := map[uint64]int64{}
	lastOf(record, seqs)
	err := k.spool.Hold(schema, record, func(key measure.Key, err error) {
		if err == nil {
			for session, seq := range seqs {
				k.marks.note(session, key, seq)
			}
		}
		done(err)
	})
	switch rows := record.NumRows(); {
	case errors.Is(err, spool.ErrTooLarge) && rows > 1:
		k.divide(schema, record, done)
	case err != nil:
		k.log.Warn("keep tuples of OML: they are lost", "rows", rows, "error", err)
		done(err)
	}
}

// divide stores the halves of a batch; it is kept when both are.
func (k *Backend) divide(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
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
		k.Store(schema, part, one)
		part.Release()
	}
}

// Ended implements collect.Backend.
func (k *Backend) Ended(c collect.Connection) {
	err := k.ends.Append(measure.Sample{
		measure.TimeValue(c.Ended), measure.TimeValue(c.Begun), text(c.Domain), text(c.Sender), text(c.App), text(c.Remote),
		measure.Uint64Value(c.Session), measure.Uint64Value(c.Tuples), measure.Uint64Value(c.Again), measure.Uint64Value(c.Gaps),
		measure.Uint64Value(c.Faults), measure.Uint64Value(c.Skipped), measure.Uint64Value(c.Refused), text(c.Reason),
	})
	if err != nil {
		k.log.Warn("keep the end of a connection of OML", "error", err)
	}
}

const textMax = 64 << 10

// text is a value of the archive: bounded, and UTF-8.
func text(s string) measure.Value {
	return measure.StringValue(strings.ToValidUTF8(s[:min(len(s), textMax)], "\uFFFD"))
}
