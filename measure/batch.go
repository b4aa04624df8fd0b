package measure

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Key identifies a batch uniquely, together with the agent that sends it. A batch that
// arrives twice is stored once.
type Key struct {
	Stream string
	// Epoch is drawn at random whenever a spool is opened, so that no two batches
	// have the same key.
	Epoch uint64
	// Sequence counts the batches of one stream in one epoch from 0.
	Sequence uint64
}

// Envelope is a batch on its way from a stream to an archive: in the spool, on
// the bus. Payload is an Arrow IPC stream with one record batch.
type Envelope struct {
	Key
	Rows int
	// Oldest is the lowest sequence of this stream and epoch that the sender
	// still holds: all below were delivered, or dropped and counted.
	Oldest   uint64
	Checksum uint32
	Payload  []byte
}

// ErrBatch marks a batch that is damaged or does not match its envelope. Sending it
// again does not help.
var ErrBatch = errors.New("bad batch")

// ErrUnknown marks a batch in a format of a later version: intact, but with a type of
// column, a compression or a version of Arrow's format that this version does not read.
var ErrUnknown = errors.New("format of a later version")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C.
func Checksum(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// RowsMax is how many rows a batch may have.
const RowsMax = 1_000_000

// Buffers in which payloads are written before their length is known.
var encoders = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// Encode returns the envelope of a record batch; the spool sets Oldest.
func Encode(key Key, record arrow.RecordBatch) (Envelope, error) {
	if record.NumRows() > RowsMax {
		return Envelope{}, fmt.Errorf("encode batch of %q: %d rows, at most %d", key.Stream, record.NumRows(), RowsMax)
	}
	buffer := encoders.Get().(*bytes.Buffer)
	defer encoders.Put(buffer)
	buffer.Reset()
	writer := ipc.NewWriter(buffer, ipc.WithSchema(record.Schema()))
	if err := errors.Join(writer.Write(record), writer.Close()); err != nil {
		return Envelope{}, fmt.Errorf("encode batch of %q: %w", key.Stream, err)
	}
	payload := bytes.Clone(buffer.Bytes())
	return Envelope{
		Key: key, Rows: int(record.NumRows()), Oldest: key.Sequence,
		Checksum: Checksum(payload), Payload: payload,
	}, nil
}

// Decode reads the record batch; the caller releases it. Every fault is ErrBatch, or
// ErrUnknown.
//
// A payload may come from an untrusted sender, so it is not passed to Arrow's reader,
// which trusts lengths and offsets. The record is fully validated: its buffers are as
// long as its rows need, offsets ascend inside the data, nulls are counted, strings are
// UTF-8, the time is never null. It is a copy; the payload may be reused.
func (e *Envelope) Decode() (*Schema, arrow.RecordBatch, error) {
	schema, record, err := e.decode(memory.DefaultAllocator)
	if errors.Is(err, ErrUnknown) {
		return nil, nil, fmt.Errorf("decode batch of %q: %w", e.Stream, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decode batch of %q: %w: %w", e.Stream, ErrBatch, err)
	}
	return schema, record, nil
}

func (e *Envelope) decode(memory memory.Allocator) (*Schema, arrow.RecordBatch, error) {
	if sum := Checksum(e.Payload); sum != e.Checksum {
		return nil, nil, fmt.Errorf("checksum %08x, want %08x", sum, e.Checksum)
	}
	p, err := parsePayload(e.Payload)
	if err != nil {
		return nil, nil, err
	}
	if p.schema.Name != e.Stream {
		return nil, nil, fmt.Errorf("it holds %q", p.schema.Name)
	}
	if p.rows != e.Rows {
		return nil, nil, fmt.Errorf("%d rows, want %d", p.rows, e.Rows)
	}
	record, err := p.load(memory)
	return p.schema, record, err
}
