package measure

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Key names a batch for ever, together with the agent that sends it. A batch that
// comes twice is stored once by it.
type Key struct {
	Stream string
	// Epoch is drawn at random whenever a spool is opened, so that numbers never
	// mean two batches.
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
	// still holds: whatever is below came or was dropped and counted.
	Oldest   uint64
	Checksum uint32
	Payload  []byte
}

// ErrBatch marks a batch that is damaged or is not what it says. It will not get
// better by being sent again.
var ErrBatch = errors.New("bad batch")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum is CRC-32C.
func Checksum(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// Encode makes an envelope of a record batch; Oldest is left to the spool.
func Encode(key Key, record arrow.RecordBatch) (Envelope, error) {
	var buffer bytes.Buffer
	writer := ipc.NewWriter(&buffer, ipc.WithSchema(record.Schema()))
	if err := errors.Join(writer.Write(record), writer.Close()); err != nil {
		return Envelope{}, fmt.Errorf("encode batch of %q: %w", key.Stream, err)
	}
	return Envelope{
		Key: key, Rows: int(record.NumRows()), Oldest: key.Sequence,
		Checksum: Checksum(buffer.Bytes()), Payload: buffer.Bytes(),
	}, nil
}

// Decode reads the record batch; the caller releases it. Every fault is ErrBatch.
func (e *Envelope) Decode() (schema *Schema, record arrow.RecordBatch, err error) {
	defer func() {
		if r := recover(); r != nil { // arrow panics on some malformed input
			schema, record, err = nil, nil, fmt.Errorf("decode batch of %q: %w: %v", e.Stream, ErrBatch, r)
		}
	}()
	if sum := Checksum(e.Payload); sum != e.Checksum {
		return nil, nil, fmt.Errorf("decode batch of %q: %w: checksum %08x, want %08x", e.Stream, ErrBatch, sum, e.Checksum)
	}
	reader, err := ipc.NewReader(bytes.NewReader(e.Payload), ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return nil, nil, fmt.Errorf("decode batch of %q: %w: %w", e.Stream, ErrBatch, err)
	}
	defer reader.Release()
	schema, err = SchemaOf(reader.Schema())
	if err != nil {
		return nil, nil, fmt.Errorf("decode batch: %w: %w", ErrBatch, err)
	}
	if schema.Name != e.Stream {
		return nil, nil, fmt.Errorf("decode batch of %q: %w: it holds %q", e.Stream, ErrBatch, schema.Name)
	}
	record, err = reader.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("decode batch of %q: %w: %w", e.Stream, ErrBatch, err)
	}
	if int(record.NumRows()) != e.Rows {
		return nil, nil, fmt.Errorf("decode batch of %q: %w: %d rows, want %d", e.Stream, ErrBatch, record.NumRows(), e.Rows)
	}
	record.Retain()
	return schema, record, nil
}
