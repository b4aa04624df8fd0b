package omsp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// bufferSize of reads, bytes.
const bufferSize = 128 << 10

// Reader reads one connection.
type Reader struct {
	in     *bufio.Reader
	limits Limits
	header Header
	// Schemas by index; those below 256 in an array, for speed.
	near [256]*Schema
	far  map[int]*Schema
	// long holds a line or packet larger than the buffer.
	long    []byte
	skipped uint64
}

// NewReader returns a reader of a client's connection.
func NewReader(r io.Reader, limits Limits) *Reader {
	return &Reader{in: bufio.NewReaderSize(r, bufferSize), limits: limits.complete(), far: map[int]*Schema{}}
}

// Header reads the header; it is called once, first. An empty connection returns io.EOF.
func (r *Reader) Header() (*Header, error) {
	size := 0
	for {
		text, err := r.readLine()
		if errors.Is(err, io.EOF) && size+len(text) == 0 {
			return nil, io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrHeader, unexpected(err))
		}
		if size += len(text); size > r.limits.Header {
			return nil, fmt.Errorf("%w: header of more than %d bytes", ErrLimit, r.limits.Header)
		}
		if text = bytes.TrimSpace(text); len(text) == 0 {
			break
		}
		if err := r.header.set(string(text), r.limits); err != nil {
			return nil, err
		}
	}
	if r.header.Protocol == 0 {
		return nil, fmt.Errorf("%w: no protocol line", ErrHeader)
	}
	for i := range r.header.Schemas {
		if err := r.define(&r.header.Schemas[i]); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrHeader, err)
		}
	}
	if r.near[0] == nil {
		r.near[0] = &Metadata
	}
	return &r.header, nil
}

// Skipped returns the number of bytes of binary content outside packets.
func (r *Reader) Skipped() uint64 { return r.skipped }

// Next reads the next tuple. It returns io.EOF at the end of a complete tuple. Reading
// can continue after ErrTuple. A metadata tuple that defines a stream has taken effect
// when Next returns; see Defined.
func (r *Reader) Next(t *Tuple) error {
	var err error
	if r.header.Content == Binary {
		err = r.nextPacket(t)
	} else {
		err = r.nextLine(t)
	}
	if err != nil || t.Schema.Index != 0 {
		return err
	}
	return r.redefine(t)
}

// Defined returns the schema that a metadata tuple defines; nil for other tuples.
func (r *Reader) Defined(t *Tuple) *Schema {
	if t.Schema.Index != 0 || !t.defines() {
		return nil
	}
	s, err := ParseSchema(string(t.Values[2].Bytes()))
	if err != nil {
		return nil
	}
	return r.schema(s.Index)
}

// defines reports whether a metadata tuple defines a stream.
func (t *Tuple) defines() bool {
	return len(t.Values) == 3 && t.Schema.Fields[0].Name == "subject" &&
		string(t.Values[0].Bytes()) == "." && string(t.Values[1].Bytes()) == schemaKey
}

func (r *Reader) redefine(t *Tuple) error {
	if !t.defines() {
		return nil
	}
	s, err := ParseSchema(string(t.Values[2].Bytes()))
	if err == nil {
		err = r.define(&s)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTuple, err)
	}
	return nil
}

// define sets the schema of an index.
func (r *Reader) define(s *Schema) error {
	known := r.schema(s.Index)
	switch {
	case len(s.Fields) > r.limits.Fields:
		return fmt.Errorf("define %s: %d fields, limit %d", s.Name, len(s.Fields), r.limits.Fields)
	case known != nil && known.Same(*s):
		return nil // an unchanged repetition
	case s.Index == 0 && !s.Same(Metadata):
		return fmt.Errorf("define %s: stream 0 is %s", s.Name, MetadataName)
	case s.Index < len(r.near):
		r.near[s.Index] = s
		return nil
	case known == nil && len(r.far) >= r.limits.Schemas:
		return fmt.Errorf("define %s: limit of %d streams reached", s.Name, r.limits.Schemas)
	}
	r.far[s.Index] = s
	return nil
}

// SchemaOf returns the current schema of an index; nil if undefined.
func (r *Reader) SchemaOf(index int) *Schema { return r.schema(index) }

func (r *Reader) schema(index int) *Schema {
	if uint(index) < uint(len(r.near)) {
		return r.near[index]
	}
	return r.far[index]
}

// readLine returns the next line without its terminator, valid until the next call.
func (r *Reader) readLine() ([]byte, error) {
	text, err := r.in.ReadSlice('\n')
	if err == nil {
		return text[:len(text)-1], nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	r.long = append(r.long[:0], text...)
	for errors.Is(err, bufio.ErrBufferFull) {
		if len(r.long) > r.limits.Line {
			return nil, fmt.Errorf("%w: line of more than %d bytes", ErrLimit, r.limits.Line)
		}
		text, err = r.in.ReadSlice('\n')
		r.long = append(r.long, text...)
	}
	if err != nil {
		return r.long, err
	}
	return r.long[:len(r.long)-1], nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Idle reports whether nothing is buffered: reading would block.
func (r *Reader) Idle() bool { return r.in.Buffered() == 0 }
