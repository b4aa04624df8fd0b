// Package oml keeps what instrumented applications report: it knows which table of
// which domain is which stream of the archive, and hands batches to ingest.
//
// Names of domains, streams and fields are data: they become names of the archive's
// streams only after everything but small letters and digits was replaced.
package oml

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/omsp"
	"pillion.dev/omsp/collect"
)

// Ingest is the way into the archive.
type Ingest interface {
	Put(key measure.Key, schema *measure.Schema, record arrow.RecordBatch, done func(error))
}

// Archive is what of archive.Archive this package asks for.
type Archive interface {
	Query(ctx context.Context, sql string, arguments []any, limits archive.Limits, rows func(arrow.RecordBatch) error) error
}

// Streams of what is not a tuple.
var (
	// Metadata are notes of applications.
	Metadata = measure.Schema{Name: "oml_metadata", Doc: "notes of instrumented applications", Fields: []measure.Field{
		measure.TimeField,
		{Name: "domain", Type: measure.String, Doc: "experiment"},
		{Name: "sender", Type: measure.String, Doc: "sender-id of the client"},
		{Name: "subject", Type: measure.String, Doc: "what it is about: ., .application_point or .application_point.field"},
		{Name: "key", Type: measure.String, Doc: "name of the note"},
		{Name: "value", Type: measure.String, Doc: "the note"},
	}}
	// Connections are those of applications, when they have ended.
	Connections = measure.Schema{Name: "oml_connections", Doc: "connections of instrumented applications that have ended", Fields: []measure.Field{
		measure.TimeField,
		{Name: "begun", Type: measure.Time, Doc: "when it began"},
		{Name: "domain", Type: measure.String, Doc: "experiment"},
		{Name: "sender", Type: measure.String, Doc: "sender-id of the client"},
		{Name: "application", Type: measure.String, Doc: "name of the application"},
		{Name: "remote", Type: measure.String, Doc: "address of the client"},
		{Name: "oml_session", Type: measure.Uint64, Doc: "run of a client that is answered; 0 for others"},
		{Name: "tuples", Type: measure.Uint64, Unit: "tuples", Doc: "taken"},
		{Name: "again", Type: measure.Uint64, Unit: "tuples", Doc: "sent again and there already"},
		{Name: "gaps", Type: measure.Uint64, Unit: "tuples", Doc: "numbers that were left out: lost, or dropped by the client"},
		{Name: "faults", Type: measure.Uint64, Unit: "tuples", Doc: "that could not be read"},
		{Name: "skipped_bytes", Type: measure.Uint64, Unit: "bytes", Doc: "of binary content that were no packet"},
		{Name: "reason", Type: measure.String, Doc: "why it ended; empty where the client ended it"},
	}}
)

// Keeper is a collect.Keeper.
type Keeper struct {
	ingest  Ingest
	archive Archive
	log     *slog.Logger
	path    string
	epoch   uint64
	notes   *measure.Stream
	ends    *measure.Stream

	mu   sync.Mutex
	book book
	next map[string]uint64 // sequence by stream
	made map[string]collect.Table
}

// New reads what is known of domains from the server's folder.
func New(folder string, ingest Ingest, archive Archive, log *slog.Logger) (*Keeper, error) {
	k := &Keeper{
		ingest: ingest, archive: archive, log: log, path: filepath.Join(folder, "oml.json"),
		next: map[string]uint64{}, made: map[string]collect.Table{},
	}
	var epoch [8]byte
	if _, err := rand.Read(epoch[:]); err != nil {
		return nil, fmt.Errorf("draw epoch: %w", err)
	}
	k.epoch = binary.NativeEndian.Uint64(epoch[:])
	if err := k.book.load(k.path); err != nil {
		return nil, err
	}
	for stream, schema := range map[**measure.Stream]*measure.Schema{&k.notes: &Metadata, &k.ends: &Connections} {
		made, err := measure.NewStream(schema, measure.StreamOptions{Interval: 100 * time.Millisecond}, k.put)
		if err != nil {
			return nil, fmt.Errorf("open stream %q: %w", schema.Name, err)
		}
		*stream = made
	}
	return k, nil
}

// Close stores what is left. Nothing may be kept afterwards.
func (k *Keeper) Close() error {
	for _, stream := range []*measure.Stream{k.notes, k.ends} {
		if err := stream.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (k *Keeper) put(schema *measure.Schema, record arrow.RecordBatch) error {
	k.Store(schema, record, func(error) {})
	return nil
}

// Store implements collect.Keeper.
func (k *Keeper) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	k.mu.Lock()
	key := measure.Key{Stream: schema.Name, Epoch: k.epoch, Sequence: k.next[schema.Name]}
	k.next[schema.Name]++
	k.mu.Unlock()
	k.ingest.Put(key, schema, record, done)
}

// Start implements collect.Keeper.
func (k *Keeper) Start(domain string, start int64) (int64, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, fresh, err := k.book.domain(domain)
	if err != nil {
		return 0, err
	}
	if fresh || d.Start == 0 {
		d.Start = start
		return start, k.book.save(k.path)
	}
	return d.Start, nil
}

// Table implements collect.Keeper.
func (k *Keeper) Table(domain string, s omsp.Schema) (collect.Table, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entry, fresh, err := k.book.table(domain, s)
	if err != nil {
		return collect.Table{}, err
	}
	if fresh {
		if err := k.book.save(k.path); err != nil {
			return collect.Table{}, err
		}
	}
	if known, ok := k.made[entry.Stream]; ok {
		return known, nil
	}
	schema, err := collect.SchemaOf(entry.Stream, fmt.Sprintf("%s of the OML domain %s", entry.Name, printable(domain)), s)
	if err != nil {
		return collect.Table{}, err
	}
	t := collect.Table{Name: entry.Name, Schema: schema}
	k.made[entry.Stream] = t
	return t, nil
}

// Stored implements collect.Keeper.
func (k *Keeper) Stored(ctx context.Context, session uint64, t collect.Table) (int64, error) {
	last := int64(0)
	// The name is one of ours: measure.ValidName.
	sql := fmt.Sprintf("SELECT coalesce(max(oml_seq), 0)::BIGINT FROM %s WHERE oml_session = %d", t.Schema.Name, session)
	err := k.archive.Query(ctx, sql, nil, archive.Limits{Rows: 1}, func(r arrow.RecordBatch) error {
		if column, ok := r.Column(0).(*array.Int64); ok && r.NumRows() > 0 {
			last = column.Value(0)
		}
		return nil
	})
	if err != nil && !unknown(err) {
		return 0, fmt.Errorf("read what is stored of a session: %w", err)
	}
	return last, nil
}

// Note implements collect.Keeper.
func (k *Keeper) Note(n collect.Note) {
	k.append(k.notes, measure.Sample{
		measure.TimeValue(n.Time), text(n.Domain), text(n.Sender), text(n.Subject), text(n.Key), text(n.Value),
	})
}

// Ended implements collect.Keeper.
func (k *Keeper) Ended(c collect.Connection) {
	k.append(k.ends, measure.Sample{
		measure.TimeValue(c.Ended), measure.TimeValue(c.Begun), text(c.Domain), text(c.Sender), text(c.App), text(c.Remote),
		measure.Uint64Value(c.Session), measure.Uint64Value(c.Tuples), measure.Uint64Value(c.Again), measure.Uint64Value(c.Gaps),
		measure.Uint64Value(c.Faults), measure.Uint64Value(c.Skipped), text(c.Reason),
	})
}

func (k *Keeper) append(to *measure.Stream, row measure.Sample) {
	if err := to.Append(row); err != nil {
		k.log.Warn("keep what an application says", "stream", to.Schema().Name, "error", err)
	}
}
