// Package spool is the agent's bounded on-disk queue between its streams and the bus.
// Put numbers a batch and writes it to the disk; Run delivers batches in the order of
// writing, and deletes them when they are acknowledged.
//
// A batch for which Put returned nil survives a crash of the process (kill -9), unless
// writing failed: then it waits in memory, as Stats shows; one of Hold is not sent
// meanwhile. A power failure costs what
// was written since the last sync, about a second. A batch that was delivered but not
// yet recorded as such is sent again under the same key, and the server drops the
// duplicate. The spool loses a batch only if it is full or damaged, or if the server
// rejects the batch permanently, and counts it.
//
// It knows nothing of the bus but the error of a rejected batch.
package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/bus"
	"pillion.dev/internal/store"
	"pillion.dev/measure"
	"pillion.dev/session"
)

// Errors that callers distinguish.
var (
	// ErrInUse marks a folder that another process has open.
	ErrInUse = errors.New("in use by another agent")
	// ErrClosed marks a closed spool.
	ErrClosed = errors.New("spool is closed")
	// ErrTooLarge marks a single row larger than a message, or a batch larger than the
	// whole spool.
	ErrTooLarge = errors.New("too large")
)

// spoolFormat is the format of the records in the folder's files. Without the check
// this version would delete, as damaged, what a later one wrote.
const spoolFormat = 1

const (
	// payloadMax leaves room for the headers of a bus message.
	payloadMax = bus.MaxPayload - 64<<10
	// windowBytes bounds the bytes in flight, in addition to the number of batches.
	windowBytes = 32 << 20
	// diskRetry is the pause after a failed write; also the time between syncs.
	diskRetry = time.Second
)

// Options limit the spool. The zero value has the defaults.
type Options struct {
	// LimitBytes on the disk; default 1 GiB. When it is reached the oldest file is dropped,
	// about a 64th of it.
	LimitBytes int64
	// MemoryBytes limits what is held in memory while writing fails, of Put and of Hold each;
	// default 16 MiB.
	MemoryBytes int64
	// RejectedBytes limits the folder of rejected batches; default 16 MiB.
	RejectedBytes int64
	// Window is how many batches are in flight at once; default 16.
	Window int
	// Timeout of one delivery attempt; default 30 s.
	Timeout time.Duration
	// Found, if set, is called with each intact batch that Open reads. It must not use the
	// spool; the payload is valid until it returns.
	Found func(measure.Envelope)
	// Recorded, if set, returns nil once the caller has recorded on the disk what Found and
	// the callbacks of Hold told it. Until then no file that has such a batch is deleted: the
	// next process finds the batch in it. It is called with the spool's lock held.
	Recorded func() error
	// Permanent reports whether retrying is pointless after an error; default
	// bus.ErrRejected.
	Permanent func(error) bool
	Log       *slog.Logger
	// fileBytes is the size at which a new file is started.
	fileBytes int64
	// unsupportedRetry is when a batch that the server does not support is sent again;
	// default a minute.
	unsupportedRetry time.Duration
}

func (o *Options) complete() error {
	o.LimitBytes = cmp.Or(o.LimitBytes, 1<<30)
	if o.LimitBytes < 0 {
		return fmt.Errorf("check spool limit: %d bytes", o.LimitBytes)
	}
	o.fileBytes = min(max(o.LimitBytes/64, 4<<10), 16<<20)
	o.MemoryBytes = cmp.Or(o.MemoryBytes, 16<<20)
	o.RejectedBytes = cmp.Or(o.RejectedBytes, 16<<20)
	o.Window = cmp.Or(o.Window, 16)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.unsupportedRetry = cmp.Or(o.unsupportedRetry, time.Minute)
	if o.Permanent == nil {
		o.Permanent = func(err error) bool { return errors.Is(err, bus.ErrRejected) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Spool is an open folder. Its methods are safe for concurrent use.
type Spool struct {
	dir     string
	options Options
	log     *slog.Logger
	epoch   uint64
	lock    *os.File
	stirred chan struct{}   // Run may have something to do
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	stopped sync.WaitGroup // maintain and Run
	// asideLock guards the folder of rejected batches.
	asideLock sync.Mutex

	mu      sync.Mutex
	closed  bool
	running bool
	queue   []*entry // in order of writing, those in memory last
	taken   int      // no batch before it waits
	memory  []*entry // those held only in memory, because writing failed
	// durableBytes of them are of Hold; written is signalled when they become fewer, and
	// at the end.
	durableBytes int64
	written      *sync.Cond
	lines        map[lineKey]*line
	number       uint64 // of the last file
	counts       counts
	active       *file // being written; nil until the next write
	// unsynced were written since the last sync.
	unsynced []*file
	// unrecorded counts files whose contents are not recorded; pinned are those without
	// batches.
	unrecorded int
	pinned     []*file
	full       bool
	tryDisk    time.Time
	// diskError is the error of the last write; nil once one succeeded.
	diskError error
	failing   bool          // delivery fails; logged once
	success   chan struct{} // closed at the first success after failures
	drained   chan struct{} // closed when nothing is held

	stats       Stats // DiskError is set when they are read
	diskBytes   int64
	flying      int
	flyingBytes int64
}

// Loss counts what was dropped of one stream.
type Loss struct{ Batches, Rows int64 }

// Stats are the spool's counters since Open.
type Stats struct {
	session.Spool
	SentBatches int64
	// WrittenRows were put, or found by Open. Each is sent, held, dropped or rejected:
	// WrittenRows = SentRows + HeldRows + DroppedRows + RejectedRows.
	WrittenRows, HeldRows, RejectedRows int64
	// MemoryBytes are held in memory only because writing fails.
	MemoryBytes int64
	WriteErrors int64
	// Lost counts what was dropped, by stream; under "" what was missing in damaged files when the spool was opened.
	Lost map[string]Loss
}

// Add returns the sums of the counters of two spools.
func (s Stats) Add(other Stats) Stats {
	sum := s
	sum.Batches, sum.Bytes, sum.LimitBytes = s.Batches+other.Batches, s.Bytes+other.Bytes, s.LimitBytes+other.LimitBytes
	sum.DroppedBatches, sum.DroppedRows = s.DroppedBatches+other.DroppedBatches, s.DroppedRows+other.DroppedRows
	sum.Rejected, sum.SentRows, sum.DiskError = s.Rejected+other.Rejected, s.SentRows+other.SentRows, cmp.Or(s.DiskError, other.DiskError)
	sum.SentBatches, sum.MemoryBytes = s.SentBatches+other.SentBatches, s.MemoryBytes+other.MemoryBytes
	sum.WrittenRows, sum.HeldRows, sum.RejectedRows = s.WrittenRows+other.WrittenRows, s.HeldRows+other.HeldRows, s.RejectedRows+other.RejectedRows
	sum.Damaged, sum.WriteErrors = s.Damaged+other.Damaged, s.WriteErrors+other.WriteErrors
	sum.Lost = maps.Clone(s.Lost)
	for stream, loss := range other.Lost {
		before := sum.Lost[stream]
		sum.Lost[stream] = Loss{before.Batches + loss.Batches, before.Rows + loss.Rows}
	}
	return sum
}

// Open locks the folder, creating it if necessary, and reads the batches in it.
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
		dir: dir, options: options, log: options.Log, lock: lock, epoch: rand.Uint64(),
		stirred: make(chan struct{}, 1), success: make(chan struct{}), drained: make(chan struct{}), lines: map[lineKey]*line{},
		stats: Stats{Spool: session.Spool{LimitBytes: options.LimitBytes}, Lost: map[string]Loss{}},
	}
	s.written = sync.NewCond(&s.mu)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	err = store.CheckFormat(dir, "spool", spoolFormat)
	for _, text := range store.Notices(dir) {
		s.log.Warn("the state of the spool is damaged", "what", text)
	}
	if err == nil {
		err = s.recover()
	}
	if err != nil {
		s.counts.file.Close()
		lock.Close()
		return nil, fmt.Errorf("open spool %q: %w", dir, err)
	}
	s.stopped.Go(s.maintain)
	return s, nil
}

// Put holds the record until it is delivered, or dropped and counted. It never waits
// for the network. A record too large for one message becomes several batches. After
// an error nothing, or only a part, of the record is held.
func (s *Spool) Put(schema *measure.Schema, record arrow.RecordBatch) error {
	if held, err := measure.SchemaOf(record.Schema()); err != nil || held.Name != schema.Name {
		return errors.Join(fmt.Errorf("put batch of %q: its columns differ from the stream's", schema.Name), err)
	}
	return s.put(schema.Name, record)
}

// Hold is Put for callers whose source sends a record again unless it is safe. Unless
// Hold returns an error, kept is called once: with nil when the batch is on the disk, or
// with the reason why it is lost. It is called with the spool's lock held: it must be quick
// and must not use the spool.
//
// No attempt is made to deliver the batch before kept was called: if the process is killed,
// the server has no record whose source has not been told that it is safe. While writing
// fails, Hold therefore waits when MemoryBytes are held for it.
//
// A record too large for one message is ErrTooLarge: Hold does not split it. It does
// not count a record for which it returned an error.
func (s *Spool) Hold(schema *measure.Schema, record arrow.RecordBatch, kept func(measure.Key, error)) error {
	envelope, err := measure.Encode(measure.Key{Stream: schema.Name}, record)
	if err != nil {
		return err
	}
	if err := s.checkSize(&envelope); err != nil {
		return err
	}
	return s.enter(envelope, kept)
}

func (s *Spool) checkSize(e *measure.Envelope) error {
	if size := recordSize(e); len(e.Payload) > payloadMax || size > s.options.LimitBytes {
		return fmt.Errorf("put batch of %q: %d bytes, the limit is %d in a message and %d in the spool: %w",
			e.Stream, size, payloadMax, s.options.LimitBytes, ErrTooLarge)
	}
	return nil
}

func (s *Spool) put(stream string, record arrow.RecordBatch) error {
	envelope, err := measure.Encode(measure.Key{Stream: stream}, record)
	if err != nil {
		return s.refuse(stream, record.NumRows(), err)
	}
	rows := record.NumRows()
	if len(envelope.Payload) <= payloadMax || rows < 2 {
		if err := s.checkSize(&envelope); err != nil {
			return s.refuse(stream, rows, err)
		}
		return s.enter(envelope, nil)
	}
	first, second := record.NewSlice(0, rows/2), record.NewSlice(rows/2, rows)
	defer first.Release()
	defer second.Release()
	return errors.Join(s.put(stream, first), s.put(stream, second))
}

func (s *Spool) enter(envelope measure.Envelope, kept func(measure.Key, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kept != nil && !s.closed && s.durableBytes >= s.options.MemoryBytes {
		s.written.Wait()
	}
	if s.closed {
		if kept == nil {
			s.stats.WrittenRows += int64(envelope.Rows)
			s.lose(envelope.Stream, amount{1, int64(envelope.Rows)})
		}
		return fmt.Errorf("put batch of %q: %w", envelope.Stream, ErrClosed)
	}
	envelope.Epoch, envelope.Sequence = s.epoch, s.line(envelope.Stream, s.epoch).next
	e := s.newEntry(&envelope)
	e.kept, e.durable = kept, kept != nil
	s.store(e, envelope.Payload)
	s.stir()
	return nil
}

// refuse counts a batch that was not accepted.
func (s *Spool) refuse(stream string, rows int64, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.WrittenRows += rows
	s.lose(stream, amount{1, rows})
	return err
}

// Stats returns the current counters.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Lost = maps.Clone(s.stats.Lost)
	if s.diskError != nil {
		stats.DiskError = s.diskError.Error()
	}
	return stats
}
