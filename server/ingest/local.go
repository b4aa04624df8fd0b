package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"pillion.dev/archive"
	"pillion.dev/measure"
	"pillion.dev/server/event"
)

// OwnAgent is the agent name of rows that the server itself writes. It is reserved.
const OwnAgent = archive.OwnAgent

// Local stores the server's own rows; it is an event.Sink, of the streams events and audit.
type Local struct {
	ingest  *Ingest
	log     *slog.Logger
	rows    chan row
	dropped atomic.Uint64
	ended   sync.WaitGroup
	close   sync.Once
}

type row struct {
	schema *measure.Schema
	sample measure.Sample
}

// ownStreams are written by the server only: agents cannot be trusted to report on other
// agents or on users.
var ownStreams = []*measure.Schema{&measure.Events, &measure.Audit, &measure.ClockPairs}

func isOwn(stream string) bool {
	return slices.ContainsFunc(ownStreams, func(s *measure.Schema) bool { return s.Name == stream })
}

const localRows = 4096

// NewLocal declares the standard streams in the archive and starts.
func NewLocal(ingest *Ingest, log *slog.Logger) (*Local, error) {
	l := &Local{ingest: ingest, log: log, rows: make(chan row, localRows)}
	streams := map[string]*measure.Stream{}
	for _, schema := range ownStreams {
		stream, err := measure.NewStream(schema, measure.StreamOptions{Interval: linger}, ingest.store)
		if err != nil {
			return nil, fmt.Errorf("open stream %q: %w", schema.Name, err)
		}
		streams[schema.Name] = stream
	}
	if err := l.declare(); err != nil {
		return nil, err
	}
	l.ended.Go(func() { l.run(streams) })
	return l, nil
}

// declare creates the standard streams in the archive, with all current columns, so that
// queries before their first row return no rows instead of an error.
func (l *Local) declare() error {
	for _, schema := range measure.Standard() {
		builder := array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
		record := builder.NewRecordBatch()
		builder.Release()
		err := l.ingest.store(schema, record)
		record.Release()
		if err != nil {
			return fmt.Errorf("declare stream %q: %w", schema.Name, err)
		}
	}
	return nil
}

func (l *Local) run(streams map[string]*measure.Stream) {
	for r := range l.rows {
		if err := streams[r.schema.Name].Append(r.sample); err != nil {
			l.log.Warn("store own row", "stream", r.schema.Name, "error", err)
		}
	}
	for _, stream := range streams {
		if err := stream.Close(); err != nil && !errors.Is(err, errClosing) {
			l.log.Warn("store own rows", "error", err)
		}
	}
}

func (l *Local) add(schema *measure.Schema, sample measure.Sample) {
	select {
	case l.rows <- row{schema, sample}:
	default:
		l.dropped.Add(1)
	}
}

// store queues a batch of the server.
func (i *Ingest) store(schema *measure.Schema, record arrow.RecordBatch) error {
	it := item{batch: ownBatch(schema, record)}
	if err := i.main.enqueue(it); err != nil {
		i.drop(&it)
		return err
	}
	return nil
}

// Put queues a batch of an application's tuples. It blocks while the queue is full. done
// is called once with the outcome; a batch that the archive fails to store is retried.
func (i *Ingest) Put(schema *measure.Schema, record arrow.RecordBatch, done func(error)) {
	it := item{batch: ownBatch(schema, record), bytes: recordBytes(record), done: done}
	if err := i.main.enqueue(it); err != nil {
		record.Release()
		done(err)
	}
}

// ownBatch returns a batch without a sequence number.
func ownBatch(schema *measure.Schema, record arrow.RecordBatch) archive.Batch {
	record.Retain()
	return archive.Batch{Agent: OwnAgent, Key: measure.Key{Stream: schema.Name}, Schema: schema, Record: record}
}

// recordBytes returns the memory of a batch's columns.
func recordBytes(record arrow.RecordBatch) int64 {
	size := int64(0)
	for _, column := range record.Columns() {
		size += int64(column.Data().SizeInBytes())
	}
	return size
}

// ownMax limits the server's batches that are waiting for a failing archive.
const ownMax = 4096

// keep holds a batch of the server for the next commit.
func (p *pipe) keep(it *item) {
	if it.done == nil && (it.refused() || len(p.own) >= ownMax) {
		p.in.drop(it)
		return
	}
	it.err = nil
	p.in.mu.Lock()
	p.resize(it.size()) // it is queued again
	p.in.mu.Unlock()
	p.own = append(p.own, *it)
}

// drop counts a batch of the server that will not be stored.
func (i *Ingest) drop(it *item) {
	i.mu.Lock()
	i.stats.OwnDropped += uint64(it.batch.Record.NumRows())
	i.mu.Unlock()
	it.batch.Record.Release()
	if it.done != nil {
		it.done(errClosing)
	}
}

// Dropped returns the number of rows that came faster than they could be stored, or could
// not be stored.
func (l *Local) Dropped() uint64 { return l.dropped.Load() + l.ingest.Stats().OwnDropped }

// Event stores and logs an event.
func (l *Local) Event(e event.Event) {
	level := map[string]slog.Level{event.Warning: slog.LevelWarn, event.Error: slog.LevelError}[e.Level]
	l.log.Log(context.Background(), level, e.Message, "kind", e.Kind, "agent", e.Agent, "peer", e.Peer, "session", e.Session)
	l.add(&measure.Events, measure.Sample{
		measure.TimeValue(at(e.Time)), measure.StringValue(e.Kind), measure.StringValue(e.Level),
		measure.StringValue(e.Agent), measure.StringValue(e.Session), measure.StringValue(e.Message),
		measure.StringValue(e.Peer),
	})
}

// Change stores an audit record.
func (l *Local) Change(c event.Change) {
	l.add(&measure.Audit, measure.Sample{
		measure.TimeValue(at(c.Time)), measure.StringValue(c.Token), measure.StringValue(c.Role),
		measure.StringValue(c.Remote), measure.StringValue(c.Method), measure.StringValue(c.Request),
		measure.StringValue(c.Outcome),
	})
}

// ClockPair stores an estimate of a clock offset.
func (l *Local) ClockPair(sample measure.Sample) { l.add(&measure.ClockPairs, sample) }

func at(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now()
	}
	return t
}

// Close stores the remaining rows. Nothing may be added afterwards.
func (l *Local) Close() {
	l.close.Do(func() { close(l.rows) })
	l.ended.Wait()
}
