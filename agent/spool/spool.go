// Package spool is the agent's bounded queue on disk between its streams and the
// bus. Put numbers a batch and writes it down; Run delivers what is held, in the
// order of writing, and forgets what was acknowledged.
//
// What Put returned nil for survives the process's death (kill -9), unless the
// disk refused it: then it waits in memory, as Stats shows. A loss of power costs
// what was written since the last sync, about a second. A batch that was
// delivered but not yet noted as such is sent again under the same key, and the
// server drops the duplicate. The spool itself loses a batch only where it is
// full, damaged or refused for good, and counts it.
//
// It knows nothing of the bus but the error that says that a batch is refused.
package spool

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bus"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Errors that callers tell apart.
var (
	// ErrInUse is a folder that another process has open.
	ErrInUse = errors.New("another agent uses it")
	// ErrClosed is a spool that was closed.
	ErrClosed = errors.New("spool is closed")
	// ErrTooLarge is a single row that no message can carry, or a batch larger
	// than the whole spool.
	ErrTooLarge = errors.New("too large")
)

const (
	// payloadMax leaves room for what the bus puts around a payload.
	payloadMax = bus.MaxPayload - 64<<10
	// windowBytes bounds what is in flight, besides the number of batches.
	windowBytes = 32 << 20
	// segmentMax bounds the file that Open reads into memory.
	segmentMax = 64 << 20
	// diskPause is how long a disk that failed is left alone; also the time
	// between syncs.
	diskPause = time.Second
)

// Options bound the spool. The zero value has the defaults.
type Options struct {
	// LimitBytes of all segments; default 1 GiB. When it is reached the oldest
	// segment is dropped as a whole.
	LimitBytes int64
	// SegmentBytes is the size at which a file is followed by the next; default a
	// 64th of LimitBytes, at most 16 MiB.
	SegmentBytes int64
	// MemoryBytes bounds what is kept while the disk refuses; default 16 MiB.
	MemoryBytes int64
	// RejectedBytes bounds the folder of refused batches; default 16 MiB.
	RejectedBytes int64
	// Window is how many batches are in flight at once; default 16.
	Window int
	// Timeout of one attempt to send; default 30 s.
	Timeout time.Duration
	// Found is told of each batch that Open reads whole, also of one that was
	// delivered already. It must not use the spool; the payload is good until it returns.
	Found func(measure.Envelope)
	// Permanent tells an error that trying again will not mend; default
	// bus.ErrRejected.
	Permanent func(error) bool
	Log       *slog.Logger
}

func (o *Options) complete() error {
	if o.LimitBytes == 0 {
		o.LimitBytes = 1 << 30
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = min(max(o.LimitBytes/64, 4<<10), 16<<20)
	}
	if o.LimitBytes < 0 || o.SegmentBytes < 0 || o.SegmentBytes > min(segmentMax, o.LimitBytes) {
		return fmt.Errorf("limit the spool: segments of %d bytes, %d in all: want at most %d, and no more than all",
			o.SegmentBytes, o.LimitBytes, segmentMax)
	}
	if o.MemoryBytes <= 0 {
		o.MemoryBytes = 16 << 20
	}
	if o.RejectedBytes <= 0 {
		o.RejectedBytes = 16 << 20
	}
	if o.Window <= 0 {
		o.Window = 16
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.Permanent == nil {
		o.Permanent = func(err error) bool { return errors.Is(err, bus.ErrRejected) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Spool is an open folder. Its methods may be called from any goroutine.
type Spool struct {
	dir     string
	options Options
	log     *slog.Logger
	epoch   uint64
	lock    *os.File
	stirred chan struct{} // Run may have something to do
	sealed  chan struct{} // a file waits in toSync
	stop    chan struct{}
	stopped sync.WaitGroup // tend, and Run
	// asideLock guards the folder of refused batches.
	asideLock sync.Mutex

	mu       sync.Mutex
	closed   bool
	running  bool
	segments []*segment // in order of writing, memory last
	active   *segment   // being written; nil until the next write
	file     *os.File   // of active
	memory   *segment   // nil unless the disk refused
	lines    map[lineKey]*line
	number   uint64 // of the last segment
	header   []byte // buffer
	toSync   []*os.File
	unsynced bool
	dirty    bool // acknowledgements are not noted yet
	full     bool
	failing  bool // sending fails; told to the log once
	tryDisk  time.Time
	// diskError is that of the last write; nil once one succeeded.
	diskError error
	drained   chan struct{} // closed when nothing is held

	batches     int64
	bytes       int64
	diskBytes   int64
	memoryBytes int64
	flying      int
	flyingBytes int64
	counts      counts
	lost        map[string]Loss
}

type counts struct {
	sentBatches, sentRows, rejected, writeErrors int64
	damaged                                      damage
}

// Loss is what of one stream was dropped.
type Loss struct{ Batches, Rows int64 }

// Stats is the spool's account since Open.
type Stats struct {
	session.Spool
	SentBatches int64
	// MemoryBytes are held in memory alone, because the disk refuses.
	MemoryBytes int64
	// Damaged are places in files that could not be read; DamagedBytes is their
	// length.
	Damaged, DamagedBytes int64
	WriteErrors           int64
	// Lost is what was dropped, by stream.
	Lost map[string]Loss
}

// Open takes the folder, which it makes if need be, and reads what is held in it.
func Open(dir string, options Options) (*Spool, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	s := &Spool{
		dir: dir, options: options, log: options.Log, lock: lock, epoch: randomEpoch(),
		stirred: make(chan struct{}, 1), sealed: make(chan struct{}, 1), stop: make(chan struct{}),
		drained: make(chan struct{}), lines: map[lineKey]*line{}, lost: map[string]Loss{},
	}
	if err := s.recover(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	s.stopped.Add(1)
	go s.tend()
	return s, nil
}

func randomEpoch() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Put holds the record until it is delivered, or dropped and counted. It never
// waits for the network. A record too large for one message becomes several
// batches. An error means that nothing of the record, or not all of it, is held.
func (s *Spool) Put(schema *measure.Schema, record arrow.RecordBatch) error {
	if held, err := measure.SchemaOf(record.Schema()); err != nil || held.Name != schema.Name {
		return errors.Join(fmt.Errorf("put batch of %q: its columns are not this stream's", schema.Name), err)
	}
	return s.put(schema.Name, record)
}

// Hold is Put for who has to know when a record is safe. kept is called once, unless
// Hold returns an error: with nil when the batch is on the disk, before its first
// attempt to be sent; or, where the disk refuses, when it and what was put before it
// is at the server. Else it says why the batch is lost. It is called with the spool's
// lock: it must be quick and not use the spool.
//
// A record too large for one message is ErrTooLarge: Hold does not divide, and does
// not count what it returned an error for.
func (s *Spool) Hold(schema *measure.Schema, record arrow.RecordBatch, kept func(measure.Key, error)) error {
	envelope, err := measure.Encode(measure.Key{Stream: schema.Name}, record)
	if err != nil {
		return err
	}
	if len(envelope.Payload) > payloadMax || recordSize(&envelope) > s.options.LimitBytes {
		return fmt.Errorf("hold batch of %q: %d bytes: %w", schema.Name, len(envelope.Payload), ErrTooLarge)
	}
	return s.enter(envelope, kept)
}

func (s *Spool) put(stream string, record arrow.RecordBatch) error {
	envelope, err := measure.Encode(measure.Key{Stream: stream}, record)
	if err != nil {
		return s.refuse(stream, record.NumRows(), err)
	}
	rows := record.NumRows()
	if len(envelope.Payload) <= payloadMax {
		return s.add(envelope)
	}
	if rows < 2 {
		return s.refuse(stream, rows, fmt.Errorf("put batch of %q: row of %d bytes, at most %d: %w",
			stream, len(envelope.Payload), payloadMax, ErrTooLarge))
	}
	first, second := record.NewSlice(0, rows/2), record.NewSlice(rows/2, rows)
	defer first.Release()
	defer second.Release()
	return errors.Join(s.put(stream, first), s.put(stream, second))
}

func (s *Spool) add(envelope measure.Envelope) error {
	size := recordSize(&envelope)
	if size > s.options.LimitBytes {
		return s.refuse(envelope.Stream, int64(envelope.Rows), fmt.Errorf("put batch of %q: %d bytes, the spool holds %d: %w",
			envelope.Stream, size, s.options.LimitBytes, ErrTooLarge))
	}
	return s.enter(envelope, nil)
}

func (s *Spool) enter(envelope measure.Envelope, kept func(measure.Key, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if kept == nil {
			s.lose(envelope.Stream, int64(envelope.Rows))
		}
		return fmt.Errorf("put batch of %q: %w", envelope.Stream, ErrClosed)
	}
	l := s.line(envelope.Stream, s.epoch)
	e := &entry{line: l, sequence: l.next, size: recordSize(&envelope), rows: uint32(envelope.Rows), checksum: envelope.Checksum, kept: kept}
	l.next++
	s.store(e, envelope.Payload)
	s.stir()
	return nil
}

// refuse counts a batch that was never held.
func (s *Spool) refuse(stream string, rows int64, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose(stream, rows)
	return err
}

// Stats is the account of this moment.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{
		Spool: session.Spool{
			Batches: s.batches, Bytes: s.bytes, LimitBytes: s.options.LimitBytes,
			Rejected: s.counts.rejected, SentRows: s.counts.sentRows,
		},
		SentBatches: s.counts.sentBatches, MemoryBytes: s.memoryBytes, WriteErrors: s.counts.writeErrors,
		Damaged: s.counts.damaged.places, DamagedBytes: s.counts.damaged.bytes, Lost: maps.Clone(s.lost),
	}
	if s.diskError != nil {
		stats.DiskError = s.diskError.Error()
	}
	for _, loss := range s.lost {
		stats.DroppedBatches += loss.Batches
		stats.DroppedRows += loss.Rows
	}
	return stats
}
