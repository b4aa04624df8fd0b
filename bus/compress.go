package bus

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"pillion.dev/measure"
)

// compression is the only compression of batches: Zstandard (RFC 8878). A server says in each reply
// to a batch that it reads compressed ones, so that an agent sends the first of a connection as it is.
const compression = "zstd"

const (
	compressFrom   = 512     // bytes; smaller payloads are sent as they are
	compressWindow = 1 << 20 // bytes, which bounds the memory of an agent
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

// decompress returns the payload of that size, bytes; every error is ErrRejected.
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

// message makes the message of a batch, of another agent unless that is empty: compressed, if the
// server reads that and it is smaller.
func (a *Agent) message(of string, e measure.Envelope) (m *nats.Msg, compressed bool) {
	var packed []byte
	if a.compresses.Load() {
		packed = compress(e.Payload)
	}
	m = &nats.Msg{Subject: dataSubject(a.options.Name, e.Stream), Data: e.Payload}
	if packed != nil {
		m.Data = packed
	}
	header := formatBatch(&e)
	switch {
	case of != "":
		header = formatRelayed(&e, of, packed != nil)
	case packed != nil:
		header = formatCompressed(&e)
	}
	m.Header = nats.Header{batchHeader: {header}}
	return m, packed != nil
}

// accepts reports whether a server reads compressed batches.
func accepts(header nats.Header) bool {
	text, _ := only(header, acceptHeader)
	return text == compression
}
