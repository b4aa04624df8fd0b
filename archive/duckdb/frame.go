package duckdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The server and the process that answers a query exchange frames: a byte for the kind,
// the number of a scan, the length, the content. The process may be in the hands of who
// wrote the query: nothing that it sends is believed.
const (
	// To the process.
	frameQuestion = 'Q' // JSON: question
	frameRows     = 'D' // rows of a scan: Arrow IPC messages
	frameCount    = 'N' // number of rows of a scan that reads no columns: 8 bytes
	frameEnd      = 'E' // end of a scan; the error, if any
	// From the process.
	framePlan   = 'P' // JSON: number of scans of the plan
	frameScan   = 'S' // JSON: scan
	frameMore   = 'M' // room for one more frame of rows of a scan
	frameStop   = 'C' // a scan needs no more rows
	frameResult = 'R' // rows of the answer: Arrow IPC messages
	frameDone   = 'F' // JSON: outcome
)

const (
	frameHeader = 9
	// frameBytes limits the frames that the server reads.
	frameBytes = 16 << 20
	// scanAhead is the number of frames of rows of a scan on their way.
	scanAhead = 8
)

var errFrame = errors.New("the process that answers the query broke the protocol")

type frame struct {
	kind    byte
	scan    uint32
	content []byte
}

// frameWriter may be used by several goroutines.
type frameWriter struct {
	mutex sync.Mutex
	to    io.Writer
}

func (w *frameWriter) send(kind byte, scan uint32, content []byte) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var header [frameHeader]byte
	header[0] = kind
	binary.LittleEndian.PutUint32(header[1:], scan)
	binary.LittleEndian.PutUint32(header[5:], uint32(len(content)))
	if _, err := w.to.Write(header[:]); err != nil {
		return err
	}
	if len(content) == 0 {
		return nil
	}
	_, err := w.to.Write(content)
	return err
}

// readFrame reads one frame of at most so many bytes.
func readFrame(from io.Reader, most int) (frame, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return frame{}, err
	}
	size := binary.LittleEndian.Uint32(header[5:])
	if int64(size) > int64(most) {
		return frame{}, fmt.Errorf("%w: a frame has %d bytes, limit %d", errFrame, size, most)
	}
	f := frame{kind: header[0], scan: binary.LittleEndian.Uint32(header[1:]), content: make([]byte, size)}
	_, err := io.ReadFull(from, f.content)
	return f, err
}

// recordWriter turns record batches of one schema into the contents of frames.
type recordWriter struct {
	buffer bytes.Buffer
	ipc    *ipc.Writer
}

func newRecordWriter(schema *arrow.Schema) *recordWriter {
	w := &recordWriter{}
	w.ipc = ipc.NewWriter(&w.buffer, ipc.WithSchema(schema))
	return w
}

// encode returns a slice that is valid until the next call.
func (w *recordWriter) encode(r arrow.RecordBatch) ([]byte, error) {
	w.buffer.Reset()
	if err := w.ipc.Write(r); err != nil {
		return nil, err
	}
	return w.buffer.Bytes(), nil
}

// recordReader reads record batches from the contents of frames, which next returns;
// io.EOF is the end.
type recordReader struct {
	next    func() ([]byte, error)
	rest    []byte
	message *ipc.Message
}

// newRecordReader returns the reader of a stream of record batches: nil if it is empty.
// Memory that it allocates beyond that of the frames is bounded.
func newRecordReader(next func() ([]byte, error)) (reader *ipc.Reader, err error) {
	from := &recordReader{next: next}
	if from.rest, err = next(); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return ipc.NewReaderFromMessageReader(from, ipc.WithAllocator(frugal{memory.DefaultAllocator}), ipc.WithDelayReadSchema(false))
}

const (
	continuation   = 0xffffffff
	messageHeader  = 8
	messageAligned = 8
)

// Message implements ipc.MessageReader. The lengths are those of the frame.
func (r *recordReader) Message() (*ipc.Message, error) {
	if len(r.rest) == 0 {
		var err error
		if r.rest, err = r.next(); err != nil {
			return nil, err
		}
	}
	if len(r.rest) < messageHeader || binary.LittleEndian.Uint32(r.rest) != continuation {
		return nil, fmt.Errorf("%w: not an Arrow message", errFrame)
	}
	size := int64(binary.LittleEndian.Uint32(r.rest[4:]))
	if size == 0 {
		return nil, io.EOF
	}
	if size < messageAligned || size > int64(len(r.rest)-messageHeader) {
		return nil, fmt.Errorf("%w: an Arrow message has %d bytes of metadata", errFrame, size)
	}
	meta, body := r.rest[messageHeader:messageHeader+size], r.rest[messageHeader+size:]
	r.Release()
	r.message = ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body))
	length := r.message.BodyLen()
	if length < 0 || length > int64(len(body)) {
		return nil, fmt.Errorf("%w: an Arrow message has a body of %d bytes", errFrame, length)
	}
	r.rest = body[length:]
	return r.message, nil
}

// Retain implements ipc.MessageReader.
func (r *recordReader) Retain() {}

// Release implements ipc.MessageReader.
func (r *recordReader) Release() {
	if r.message != nil {
		r.message.Release()
		r.message = nil
	}
}

// frugal refuses sizes that only a forged message has.
type frugal struct{ memory.Allocator }

// Allocate panics; who reads records recovers.
func (f frugal) Allocate(size int) []byte {
	if size > frameBytes {
		panic(fmt.Errorf("%w: a column has %d bytes", errFrame, size))
	}
	return f.Allocator.Allocate(size)
}

// Reallocate is as Allocate.
func (f frugal) Reallocate(size int, b []byte) []byte {
	if size > frameBytes {
		panic(fmt.Errorf("%w: a column has %d bytes", errFrame, size))
	}
	return f.Allocator.Reallocate(size, b)
}
