package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A payload is an Arrow stream as Encode writes it, and no other: a schema message, one
// record batch message, the end. The numbers below are from Message.fbs and Schema.fbs
// of the Arrow format 1.0.
const (
	continuation = 0xFFFFFFFF
	// metadataMax bounds either message's header: fieldsMax fields with the
	// longest descriptions are below half of it.
	metadataMax = 1 << 20

	messageVersion    = 0
	messageHeaderType = 1
	messageHeader     = 2
	messageBodyLength = 3
	version5          = 4
	headerSchema      = 1
	headerRecordBatch = 3

	schemaEndianness = 0
	schemaFields     = 1
	schemaMetadata   = 2

	fieldName       = 0
	fieldTypeType   = 2
	fieldType       = 3
	fieldDictionary = 4
	fieldChildren   = 5
	fieldMetadata   = 6

	batchLength      = 0
	batchNodes       = 1
	batchBuffers     = 2
	batchCompression = 3
	batchVariadic    = 4

	typeInt, typeFloat, typeBinary, typeString = 2, 3, 4, 5
	typeBool, typeTimestamp, typeList          = 6, 10, 12
	precisionDouble, unitNanosecond            = 2, 3
)

// metadataEntries bounds the metadata entries of one field: other writers may add some.
const metadataEntries = 16

// payload is one parsed payload; the positions in nodes and buffers are checked
// against the body, the contents of the body are not yet.
type payload struct {
	schema  *Schema
	rows    int
	nodes   []node
	buffers []span
	body    []byte
}

// node is the number of values in a column, or inside a list column.
type node struct{ length, nulls int }

// span is a buffer's place in the body.
type span struct{ offset, length int }

func parsePayload(bytes []byte) (p *payload, err error) {
	defer recovered(&err)
	head, body, rest, err := nextMessage(bytes, headerSchema)
	if err != nil {
		return nil, fmt.Errorf("schema message: %w", err)
	}
	if len(body) != 0 {
		return nil, fmt.Errorf("schema message: a body of %d bytes", len(body))
	}
	schema, err := parseSchema(head)
	if err != nil {
		return nil, err
	}
	head, body, rest, err = nextMessage(rest, headerRecordBatch)
	if err != nil {
		return nil, fmt.Errorf("record batch message: %w", err)
	}
	if len(rest) != 8 || binary.LittleEndian.Uint64(rest) != continuation {
		return nil, fmt.Errorf("%d bytes after the record batch, want the end mark alone", len(rest))
	}
	p = &payload{schema: schema, body: body}
	return p, p.parseBatch(head)
}

// nextMessage splits the first message off.
func nextMessage(bytes []byte, kind uint8) (header flatTable, body, rest []byte, err error) {
	defer recovered(&err)
	if len(bytes) < 8 || binary.LittleEndian.Uint32(bytes) != continuation {
		return header, nil, nil, errors.New("it does not begin with the continuation mark")
	}
	length := binary.LittleEndian.Uint32(bytes[4:])
	rest = bytes[8:]
	if length > metadataMax || int(length) > len(rest) {
		return header, nil, nil, fmt.Errorf("metadata of %d bytes, at most %d", length, min(metadataMax, len(rest)))
	}
	message := rootTable(rest[:length])
	rest = rest[length:]
	version, found := message.int16Of(messageVersion), message.byteOf(messageHeaderType)
	size := message.int64Of(messageBodyLength)
	switch {
	case version > version5:
		return header, nil, nil, fmt.Errorf("%w: metadata version %d, want %d", ErrUnknown, version+1, version5+1)
	case version != version5:
		return header, nil, nil, fmt.Errorf("metadata version %d, want %d", version+1, version5+1)
	case found != kind:
		return header, nil, nil, fmt.Errorf("message of type %d, want %d", found, kind)
	case size < 0 || size > int64(len(rest)):
		return header, nil, nil, fmt.Errorf("body of %d bytes where %d follow", size, len(rest))
	}
	return message.tableOf(messageHeader), rest[:size], rest[size:], nil
}

func parseSchema(t flatTable) (*Schema, error) {
	if order := t.int16Of(schemaEndianness); order != 0 {
		return nil, fmt.Errorf("%w: byte order %d, want little-endian", ErrSchema, order)
	}
	notes := parseNotes(t, schemaMetadata)
	s := &Schema{Name: notes.stream, Doc: notes.doc}
	start, n := t.vectorOf(schemaFields, 4, fieldsMax)
	for i := range n {
		f, err := parseField(t.tableAt(start, i))
		if err != nil {
			return nil, err
		}
		s.Fields = append(s.Fields, f)
	}
	return s, s.Validate()
}

func parseField(t flatTable) (Field, error) {
	notes := parseNotes(t, fieldMetadata)
	f := Field{Name: t.textOf(fieldName, 64), Unit: notes.unit, Doc: notes.doc, Type: parseType(t)}
	if f.Type == 0 {
		return f, fmt.Errorf("%w: %w: field %q: type %d, or its width, is not one of ours", ErrUnknown, ErrSchema, f.Name, t.byteOf(fieldTypeType))
	}
	return f, nil
}

// parseType is 0 for unsupported types, including dictionaries and lists of lists.
func parseType(t flatTable) Type {
	start, children := t.vectorOf(fieldChildren, 4, 1)
	kind := t.byteOf(fieldTypeType)
	if t.has(fieldDictionary) || (children != 0) != (kind == typeList) {
		return 0
	}
	switch kind {
	case typeList:
		child := t.tableAt(start, 0)
		if child.byteOf(fieldTypeType) != typeInt {
			return 0
		}
		return map[Type]Type{Int64: Int64List, Uint64: Uint64List}[parseType(child)]
	case typeInt:
		detail := t.tableOf(fieldType)
		return map[[2]int32]Type{
			{32, 1}: Int32, {32, 0}: Uint32, {64, 1}: Int64, {64, 0}: Uint64,
		}[[2]int32{detail.int32Of(0), int32(detail.byteOf(1))}]
	case typeFloat:
		if t.tableOf(fieldType).int16Of(0) == precisionDouble {
			return Float64
		}
	case typeTimestamp:
		detail := t.tableOf(fieldType)
		if detail.int16Of(0) == unitNanosecond && detail.textOf(1, 16) == "UTC" {
			return Time
		}
	case typeBinary:
		return Binary
	case typeString:
		return String
	case typeBool:
		return Bool
	}
	return 0
}

// notes are the known metadata of a schema or a field.
type notes struct{ stream, unit, doc string }

func parseNotes(t flatTable, field int) (n notes) {
	start, count := t.vectorOf(field, 4, metadataEntries)
	for i := range count {
		entry := t.tableAt(start, i)
		// The first of a name counts: many entries that point at one text would
		// need many times its memory.
		switch key := entry.textOf(0, 64); {
		case key == metaStream && n.stream == "":
			n.stream = entry.textOf(1, 64)
		case key == metaUnit && n.unit == "":
			n.unit = entry.textOf(1, unitMax)
		case key == metaDoc && n.doc == "":
			n.doc = entry.textOf(1, docMax)
		}
	}
	return n
}

// parseBatch reads where the columns are. Buffers must not overlap, so that no byte of
// the body counts twice: rows cost the sender as much as the receiver.
func (p *payload) parseBatch(t flatTable) error {
	if t.has(batchCompression) || t.has(batchVariadic) {
		return fmt.Errorf("%w: compressed bodies and views are not read", ErrUnknown)
	}
	rows := t.int64Of(batchLength)
	if rows < 0 || rows > RowsMax {
		return fmt.Errorf("%d rows, at most %d", rows, RowsMax)
	}
	p.rows = int(rows)
	start, n := t.vectorOf(batchNodes, 16, 2*fieldsMax)
	for i := range n {
		length, nulls := t.int64(start+16*i), t.int64(start+16*i+8)
		if length < 0 || length > int64(len(p.body))*8 || nulls < 0 || nulls > length {
			return fmt.Errorf("column with %d values, %d of them null, in %d bytes", length, nulls, len(p.body))
		}
		p.nodes = append(p.nodes, node{int(length), int(nulls)})
	}
	start, n = t.vectorOf(batchBuffers, 16, 5*fieldsMax)
	end := int64(0)
	for i := range n {
		offset, length := t.int64(start+16*i), t.int64(start+16*i+8)
		size := int64(len(p.body))
		if length == 0 {
			p.buffers = append(p.buffers, span{})
			continue
		}
		if offset < end || offset%8 != 0 || offset > size || length < 0 || length > size-offset {
			return fmt.Errorf("buffer of %d bytes at %d in a body of %d, after %d", length, offset, size, end)
		}
		end = offset + length
		p.buffers = append(p.buffers, span{int(offset), int(length)})
	}
	return nil
}
