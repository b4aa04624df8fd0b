// Package server stores the measurements of instrumented applications: it maps the tables
// of each domain to streams of the archive and passes batches to ingest.
//
// Names of domains, streams and fields are untrusted: they become names of streams in
// the archive only after all but lowercase letters and digits has been replaced.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/measure/application"
	"pillion.dev/oml/omsp"
	"pillion.dev/oml/omsp/collect"
	"pillion.dev/server/store"
)

// Ingest writes batches to the archive.
type Ingest interface {
	Put(schema *measure.Schema, record arrow.RecordBatch, done func(error))
}

// Archive is the part of archive.Archive that this package uses.
type Archive interface {
	Export(ctx context.Context, question archive.Export, rows func(arrow.RecordBatch) error) error
	Highest(ctx context.Context, stream, column string, where map[string]string) (int64, error)
}

// Clock says when domains and tables are used, and from when they are unused for too long.
type Clock interface {
	Now() time.Time
	Cutoff() time.Time
}

// Streams other than tables.
var (
	// Metadata is what applications report about themselves. Its columns are a table's,
	// and the domain.
	Metadata = measure.Schema{Name: "oml_metadata", Doc: "metadata of instrumented applications", Fields: append(collect.Columns(),
		measure.Field{Name: "domain", Type: measure.String, Doc: "experiment"},
		measure.Field{Name: "subject", Type: measure.String, Doc: "what it is about: ., .application_point or .application_point.field"},
		measure.Field{Name: "key", Type: measure.String, Doc: "key"},
		measure.Field{Name: "value", Type: measure.String, Doc: "value"},
	)}
	// Tables maps the tables of domains to streams.
	Tables = measure.Schema{Name: application.Tables, Doc: "tables of instrumented applications and their streams", Fields: []measure.Field{
		measure.TimeField,
		{Name: "domain", Type: measure.String, Doc: "experiment"},
		{Name: "table_name", Type: measure.String, Doc: "name of the table as the application sent it, with _2, _3, ... for different fields"},
		{Name: "stream", Type: measure.String, Doc: "stream of the archive with its tuples"},
		{Name: "fields", Type: measure.String, Doc: "schema: index (unused), name, field:type ..."},
		{Name: "start", Type: measure.Int64, Unit: "s", Doc: "start time of the domain, since 1970"},
	}}
	// Connections has a row for each connection that has ended.
	Connections = collect.Connections("oml_connections")
)

// Backend is a collect.Backend.
type Backend struct {
	ingest  Ingest
	archive Archive
	log     *slog.Logger
	store   store.Store
	quota   Quota
	clock   Clock
	tables  *measure.Stream
	ends    *measure.Stream

	mu      sync.Mutex
	catalog catalog
	made    map[string]collect.Table
	swept   time.Time
}

// New loads the known domains from the store.
func New(kept store.Store, ingest Ingest, archive Archive, quota Quota, clock Clock, log *slog.Logger) (*Backend, error) {
	k := &Backend{
		ingest: ingest, archive: archive, log: log, store: kept,
		made: map[string]collect.Table{}, quota: quota.complete(), clock: clock,
	}
	if err := k.Reload(context.Background()); err != nil {
		return nil, err
	}
	for stream, schema := range map[**measure.Stream]*measure.Schema{&k.tables: &Tables, &k.ends: &Connections} {
		made, err := measure.NewStream(schema, measure.StreamOptions{Interval: 100 * time.Millisecond}, k.put)
		if err != nil {
			return nil, fmt.Errorf("open stream %q: %w", schema.Name, err)
		}
		*stream = made
	}
	k.declare()
	return k, k.announceAll()
}

// declare creates the streams in the archive before their first row, so that queries
// return no rows instead of an error.
func (k *Backend) declare() {
	for _, schema := range []*measure.Schema{&Metadata, &Tables, &Connections} {
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
		record := builder.NewRecordBatch()
		builder.Release()
		k.Store(schema, record, func(error) {})
		record.Release()
	}
}

// announceAll adds rows of the stream Tables that the archive lacks: the server may
// have stopped in between, or rows may have been removed.
func (k *Backend) announceAll() error {
	known := map[string]bool{}
	question := archive.Export{Stream: Tables.Name, Columns: []string{"stream"}}
	err := k.archive.Export(context.Background(), question, func(r arrow.RecordBatch) error {
		for i := range int(r.NumRows()) {
			known[strings.Clone(r.Column(0).ValueStr(i))] = true
		}
		return nil
	})
	if err != nil && !errors.Is(err, archive.ErrUnknown) {
		return fmt.Errorf("read tables of OML: %w", err)
	}
	for name, d := range k.catalog.Domains {
		for _, t := range d.Tables {
			if !known[t.Stream] {
				k.announce(name, d.Start, t)
			}
		}
	}
	return nil
}

func (k *Backend) announce(domain string, start int64, t entry) {
	k.append(k.tables, measure.Sample{
		measure.TimeValue(time.Now()), collect.Text(domain), collect.Text(t.Name), collect.Text(t.Stream), collect.Text(t.Schema), measure.Int64Value(start),
	})
}

// Close stores the remaining rows. No other method may be called afterwards.
func (k *Backend) Close() error {
	return errors.Join(k.tables.Close(), k.ends.Close())
}

func (k *Backend) put(schema *measure.Schema, record arrow.RecordBatch) error {
	k.Store(schema, record, func(error) {})
	return nil
}

// Store implements collect.Backend.
func (k *Backend) Store(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	k.ingest.Put(schema, record, done)
}

// For implements collect.Scoped.
func (k *Backend) For(source string) collect.Backend { return &scoped{k, source} }

// scoped is the backend of one source: an agent, an address or a local user, with quotas of
// its own.
type scoped struct {
	*Backend
	source string
}

// Start implements collect.Backend.
func (s *scoped) Start(domain string, start int64) (int64, error) {
	return s.begin(s.source, domain, start)
}

// Table implements collect.Backend.
func (s *scoped) Table(domain string, schema omsp.Schema) (collect.Table, error) {
	return s.table(s.source, domain, schema)
}

// Start implements collect.Backend.
func (k *Backend) Start(domain string, start int64) (int64, error) { return k.begin("", domain, start) }

func (k *Backend) begin(source, domain string, start int64) (int64, error) {
	domain = inText(domain)
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.repeat(func() error {
		if err := k.admitDomain(source, domain); err != nil {
			return err
		}
		d, fresh, err := k.catalog.domain(domain)
		if err != nil {
			return err
		}
		d.Used = k.clock.Now().Unix()
		k.catalog.change(domain)
		if !fresh && d.Start != 0 {
			start = d.Start
			return nil
		}
		if fresh {
			d.Source = source
		}
		d.Start = start
		if err := k.save(); err != nil {
			if d.Start = 0; fresh {
				delete(k.catalog.Domains, domain)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return start, nil
}

// Table implements collect.Backend.
func (k *Backend) Table(domain string, s omsp.Schema) (collect.Table, error) {
	return k.table("", domain, s)
}

func (k *Backend) table(source, domain string, s omsp.Schema) (collect.Table, error) {
	if s.Index == 0 {
		return collect.Table{Name: omsp.MetadataName, Schema: &Metadata, Before: []string{domain}}, nil
	}
	s.Index = 0 // the client's
	domain = inText(domain)
	k.mu.Lock()
	var t entry
	var known bool
	var made collect.Table
	err := k.repeat(func() (err error) {
		if t, known = k.catalog.find(domain, s); !known {
			if err := k.admitTable(source, s.Name); err != nil {
				return err
			}
		}
		made, err = k.make(source, domain, s, t, known)
		return err
	})
	start := int64(0)
	if d := k.catalog.Domains[domain]; d != nil {
		start = d.Start
	}
	if fresh, ok := k.catalog.find(domain, s); ok && !known && err == nil {
		t = fresh
	}
	k.mu.Unlock()
	if err == nil && !known {
		k.announce(domain, start, t)
	}
	return made, err
}

// make returns the schema of a table; an unknown table is validated and added to the
// catalog. The caller holds the lock.
func (k *Backend) make(source, domain string, s omsp.Schema, t entry, known bool) (made collect.Table, err error) {
	if known {
		k.catalog.use(domain, t.Stream, k.clock.Now())
	}
	if made, ok := k.made[t.Stream]; known && ok {
		return made, nil
	}
	if !known {
		if t, err = k.catalog.plan(domain, s); err != nil {
			return made, err
		}
	}
	for _, f := range s.Fields {
		if len(f.Name) > nameMax {
			return made, fmt.Errorf("create table %s: field name %.80s... of %d bytes, limit %d", s.Name, f.Name, len(f.Name), nameMax)
		}
	}
	schema, err := collect.SchemaOf(t.Stream, fmt.Sprintf("%s of the OML domain %s", t.Name, printable(domain)), s)
	if err != nil {
		return made, err
	}
	if !known {
		if err := k.claim(domain, t); err != nil {
			return made, err
		}
		d := k.catalog.Domains[domain]
		t.Source, t.Used = source, k.clock.Now().Unix()
		d.Tables = append(d.Tables, t)
		k.catalog.change(domain)
		if err := k.save(); err != nil {
			d.Tables = d.Tables[:len(d.Tables)-1]
			return made, err
		}
	}
	made = collect.Table{Name: t.Name, Schema: schema}
	k.made[t.Stream] = made
	return made, nil
}

// Stored implements collect.Backend.
func (k *Backend) Stored(ctx context.Context, session uint64, t collect.Table) (int64, error) {
	last, err := k.archive.Highest(ctx, t.Schema.Name, "oml_seq", map[string]string{"oml_session": strconv.FormatUint(session, 10)})
	if err != nil && !errors.Is(err, archive.ErrUnknown) {
		return 0, fmt.Errorf("read stored sequence numbers of a session: %w", err)
	}
	return last, nil
}

// Ended implements collect.Backend.
func (k *Backend) Ended(c collect.Connection) {
	k.append(k.ends, c.Sample())
}

func (k *Backend) append(to *measure.Stream, row measure.Sample) {
	if err := to.Append(row); err != nil {
		k.log.Warn("store row about an application", "stream", to.Schema().Name, "error", err)
	}
}
