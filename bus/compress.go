package bus

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// Batches are compressed with Zstandard (RFC 8878).
const (
	compressFrom   = 512     // bytes; smaller payloads are sent as they are
	compressWindow = 1 << 20 // bytes; the window bounds the memory that an agent needs
)

var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(compressWindow), zstd.WithEncoderCRC(false)) // the header has a checksum
	if err != nil {
		panic(err) // of the options
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPayload))
	if err != nil {
		panic(err) // of the options
	}
	return d
})

// compress returns the payload compressed, or nil if that makes it no smaller.
func compress(payload []byte) []byte {
	if len(payload) < compressFrom {
		return nil
	}
	packed := encoder().EncodeAll(payload, make([]byte, 0, len(payload)/2))
	if len(packed) >= len(payload) {
		return nil
	}
	return packed
}

// decompress returns the payload, whose size has to be the given one, bytes. Every error wraps ErrRejected.
func decompress(packed []byte, size int) ([]byte, error) {
	payload, err := decoder().DecodeAll(packed, make([]byte, 0, size))
	if err == nil && len(payload) != size {
		err = fmt.Errorf("%d bytes, but the header says %d", len(payload), size)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress the payload: %w", ErrRejected, err)
	}
	return payload, nil
}

// message returns the message for a batch, compressed if that makes it smaller. If of is not empty, it is
// the agent whose batch is relayed.
func message(subject, of string, e measure.Envelope) *nats.Msg {
	data, size := e.Payload, 0
	if packed := compress(e.Payload); packed != nil {
		data, size = packed, len(e.Payload)
	}
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{batchHeader: {formatBatch(&e, size, of)}}}
}
