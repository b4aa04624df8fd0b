package duckdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// The server and the process that answers a query exchange frames: a byte for the kind,
// the number of a scan, the length, the content. The process may be in the hands of who
// wrote the query: nothing that it sends is believed.
const (
	// To the process.
	frameQuestion = 'Q' // JSON: question
	frameRows     = 'D' // rows of a scan
	frameCount    = 'N' // number of rows of a scan that reads no columns: 8 bytes
	frameEnd      = 'E' // end of a scan; the error, if any
	// From the process.
	framePlan   = 'P' // JSON: number of scans of the plan
	frameScan   = 'S' // JSON: scan
	frameMore   = 'M' // room for one more frame of rows of a scan
	frameStop   = 'C' // a scan needs no more rows
	frameResult = 'R' // rows of the answer
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
