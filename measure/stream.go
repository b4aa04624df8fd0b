package measure

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Errors of streams and points that callers distinguish.
var (
	// ErrSample marks a sample that does not fit its schema. It is discarded.
	ErrSample = errors.New("bad sample")
	// ErrClosed marks an append to a closed stream.
	ErrClosed = errors.New("stream is closed")
)

// Limits of a batch. BatchBytesMax leaves room for the message's header and
// for padding below the largest message of the bus.
const (
	BatchBytesMax     = 6 << 20
	batchBytesDefault = 1 << 20
	batchRowsDefault  = 10_000
)

// StreamOptions are when a stream cuts a batch: at whichever limit is reached first.
type StreamOptions struct {
	// Rows of a batch; default 10,000.
	Rows int
	// Bytes of a batch's values; default 1 MiB.
	Bytes int
	// Interval is the longest wait of the first row of a batch; 0 waits for Rows,
	// Bytes or Flush.
	Interval time.Duration
}

func (o StreamOptions) validate() (StreamOptions, error) {
	if o.Rows == 0 {
		o.Rows = batchRowsDefault
	}
	if o.Bytes == 0 {
		o.Bytes = batchBytesDefault
	}
	switch {
	case o.Rows < 0 || o.Rows > RowsMax:
		return o, fmt.Errorf("batches of %d rows: use 1 to %d", o.Rows, RowsMax)
	case o.Bytes < 0 || o.Bytes > BatchBytesMax:
		return o, fmt.Errorf("batches of %d bytes: use 1 to %d", o.Bytes, BatchBytesMax)
	case o.Interval < 0:
		return o, fmt.Errorf("interval of %v: use 0 or more", o.Interval)
	}
	return o, nil
}

// BatchSink takes a stream's batches in their order, one at a time. The record
// is released when it returns; it must not use the stream.
type BatchSink func(schema *Schema, record arrow.RecordBatch) error

// StreamCounts count a stream's rows by their fate.
type StreamCounts struct {
	// Rows were appended; Refused were not, because they did not fit.
	Rows, Refused uint64
	// Batches were handed to the sink. For FailedBatches of them it returned an
	// error, and FailedRows were in these.
	Batches, FailedBatches, FailedRows uint64
}

// Stream gathers rows of one schema into record batches. It is safe for concurrent use.
// While the sink works on one batch the next one is filled; when that is full too,
// Append waits.
type Stream struct {
	schema  *Schema
	options StreamOptions
	sink    BatchSink

	mu      sync.Mutex // guards the following; taken before sinking
	builder *array.RecordBuilder
	rows    int
	bytes   int
	timer   *time.Timer
	closed  bool

	sinking sync.Mutex // held while the sink runs

	taken, refused, batches, failedBatches, failedRows atomic.Uint64
}

// NewStream starts a stream; Close ends it.
func NewStream(schema *Schema, options StreamOptions, sink BatchSink) (*Stream, error) {
	if err := schema.Validate(); err != nil {
		return nil, fmt.Errorf("start stream: %w", err)
	}
	options, err := options.validate()
	if err != nil {
		return nil, fmt.Errorf("start stream %q: %w", schema.Name, err)
	}
	s := &Stream{schema: schema, options: options, sink: sink}
	s.builder = array.NewRecordBuilder(memory.DefaultAllocator, schema.Arrow())
	if options.Interval > 0 {
		s.timer = time.AfterFunc(options.Interval, func() { _ = s.Flush() }) // the counts keep the error
		s.timer.Stop()
	}
	return s, nil
}

// Schema is what the rows consist of.
func (s *Stream) Schema() *Schema { return s.schema }

// Append adds a row. After ErrSample or ErrClosed the row was discarded; any other error
// is the sink's, about the batch that was cut: the row itself was added.
func (s *Stream) Append(row Sample) error {
	if err := s.schema.Check(row); err != nil {
		s.refused.Add(1)
		return fmt.Errorf("append to stream %q: %w", s.schema.Name, err)
	}
	return s.appendChecked(row)
}

func (s *Stream) appendChecked(row Sample) error {
	size := rowSize(s.schema, row)
	s.mu.Lock()
	if s.closed {
		s.refused.Add(1)
		s.mu.Unlock()
		return fmt.Errorf("append to stream %q: %w", s.schema.Name, ErrClosed)
	}
	if size > s.options.Bytes {
		s.refused.Add(1)
		s.mu.Unlock()
		return fmt.Errorf("append to stream %q: %w: %d bytes, a batch holds %d", s.schema.Name, ErrSample, size, s.options.Bytes)
	}
	var early arrow.RecordBatch
	if s.bytes+size > s.options.Bytes {
		early = s.cut()
	}
	if s.rows == 0 && s.timer != nil {
		s.timer.Reset(s.options.Interval)
	}
	for i, v := range row {
		appendValue(s.builder.Field(i), v)
	}
	s.rows++
	s.bytes += size
	s.taken.Add(1)
	var full arrow.RecordBatch
	if s.rows >= s.options.Rows || s.bytes >= s.options.Bytes {
		full = s.cut()
	}
	if early == nil && full == nil {
		s.mu.Unlock()
		return nil
	}
	s.sinking.Lock() // before mu is given up, so that batches keep their order
	s.mu.Unlock()
	defer s.sinking.Unlock()
	return errors.Join(s.handOver(early), s.handOver(full))
}

// cut takes the batch out; nil if it has no row.
func (s *Stream) cut() arrow.RecordBatch {
	if s.rows == 0 {
		return nil
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	record := s.builder.NewRecordBatch()
	s.builder.Reserve(s.rows) // the next batch is likely to be as long
	s.rows, s.bytes = 0, 0
	return record
}

// handOver runs with sinking held.
func (s *Stream) handOver(record arrow.RecordBatch) error {
	if record == nil {
		return nil
	}
	defer record.Release()
	s.batches.Add(1)
	if err := s.sink(s.schema, record); err != nil {
		s.failedBatches.Add(1)
		s.failedRows.Add(uint64(record.NumRows()))
		return fmt.Errorf("hand over batch of %q: %w", s.schema.Name, err)
	}
	return nil
}

// Flush passes all rows so far to the sink, and returns when it is done.
func (s *Stream) Flush() error { return s.flush(false) }

// Close flushes; nothing can be appended after it. It returns when the sink will
// not be called again.
func (s *Stream) Close() error { return s.flush(true) }

func (s *Stream) flush(last bool) error {
	s.mu.Lock()
	record := s.cut()
	if last && !s.closed {
		s.closed = true
		s.builder.Release()
	}
	s.sinking.Lock() // waits for a batch that another goroutine cut
	s.mu.Unlock()
	defer s.sinking.Unlock()
	return s.handOver(record)
}

// Counts are those since the stream was started.
func (s *Stream) Counts() StreamCounts {
	return StreamCounts{
		Rows: s.taken.Load(), Refused: s.refused.Load(), Batches: s.batches.Load(),
		FailedBatches: s.failedBatches.Load(), FailedRows: s.failedRows.Load(),
	}
}

// Check verifies that a sample fits the schema: a value of the right type, or null, for
// each field, and a time. Its error is ErrSample and names the field.
func (s *Schema) Check(sample Sample) error {
	if len(sample) != len(s.Fields) {
		return fmt.Errorf("%w: %d values for %d fields", ErrSample, len(sample), len(s.Fields))
	}
	for i := range sample {
		v := &sample[i]
		if v.kind == s.Fields[i].Type {
			if v.kind == String && !utf8.ValidString(v.text) {
				return fmt.Errorf("%w: field %q is not UTF-8: %.40q", ErrSample, s.Fields[i].Name, v.text)
			}
			continue
		}
		if v.kind != 0 {
			return fmt.Errorf("%w: field %q is %v, got %v", ErrSample, s.Fields[i].Name, s.Fields[i].Type, v.kind)
		}
		if i == 0 {
			return fmt.Errorf("%w: field %q is null", ErrSample, s.Fields[i].Name)
		}
	}
	return nil
}

// rowSize is what a row adds to a batch, bytes, validity rounded up.
func rowSize(s *Schema, row Sample) int {
	size := len(row)/8 + 1
	for i := range row {
		switch s.Fields[i].Type {
		case String:
			size += 4 + len(row[i].text)
		case Binary:
			size += 4 + len(row[i].bytes)
		case Int64List, Uint64List:
			size += 4 + 8*len(row[i].list)
		case Bool:
			size++
		case Int32, Uint32:
			size += 4
		default:
			size += 8
		}
	}
	return size
}

// appendValue requires the right type.
func appendValue(builder array.Builder, v Value) {
	if v.kind == 0 {
		builder.AppendNull()
		return
	}
	switch b := builder.(type) {
	case *array.BooleanBuilder:
		b.Append(v.Bool())
	case *array.Int32Builder:
		b.Append(int32(v.number))
	case *array.Uint32Builder:
		b.Append(uint32(v.number))
	case *array.Int64Builder:
		b.Append(int64(v.number))
	case *array.Uint64Builder:
		b.Append(v.number)
	case *array.Float64Builder:
		b.Append(v.Float64())
	case *array.StringBuilder:
		b.Append(v.text)
	case *array.BinaryBuilder:
		b.Append(v.bytes)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.number))
	case *array.ListBuilder:
		b.Append(true)
		switch values := b.ValueBuilder().(type) {
		case *array.Uint64Builder:
			values.AppendValues(v.list, nil)
		case *array.Int64Builder:
			bytes := arrow.Uint64Traits.CastToBytes(v.list)
			values.AppendValues(arrow.Int64Traits.CastFromBytes(bytes), nil)
		}
	}
}
