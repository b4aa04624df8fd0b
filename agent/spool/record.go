package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"pillion.dev/measure"
)

// A record is one batch in a segment file, little-endian:
//
//	 0  magic, "PSP1"
//	 4  epoch, u64; with the magic it marks a possible start of a record
//	12  CRC-32C of bytes 16 up to the payload
//	16  sequence, u64
//	24  rows, u32
//	28  length of the payload, u32
//	32  CRC-32C of the payload: the envelope's checksum
//	36  length of the stream's name, u8
//	37  the name, then the payload
//
// The epoch is random and part of the file's name, so that no payload can be mistaken
// for a record when the reader searches for the next one.
const (
	recordMagic = "PSP1"
	markerSize  = 12
	headerSize  = 37
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func marker(epoch uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte(recordMagic), epoch)
}

// appendHeader appends a record without its payload.
func appendHeader(b []byte, e *measure.Envelope) []byte {
	start := len(b)
	b = append(b, recordMagic...)
	b = binary.LittleEndian.AppendUint64(b, e.Epoch)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, e.Sequence)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Rows))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Payload)))
	b = binary.LittleEndian.AppendUint32(b, e.Checksum)
	b = append(b, byte(len(e.Stream)))
	b = append(b, e.Stream...)
	sum := crc32.Checksum(b[start+16:], castagnoli)
	binary.LittleEndian.PutUint32(b[start+markerSize:], sum)
	return b
}

func recordSize(e *measure.Envelope) int64 {
	return int64(headerSize + len(e.Stream) + len(e.Payload))
}

// parseRecord parses the header of the record at the start of data, which must begin
// with the marker. The payload is not verified; it is nil if data is too short for it.
func parseRecord(data []byte, epoch uint64) (e measure.Envelope, size int64, ok bool) {
	if len(data) < headerSize || !bytes.HasPrefix(data, marker(epoch)) {
		return e, 0, false
	}
	body := headerSize + int(data[36])
	if len(data) < body || crc32.Checksum(data[16:body], castagnoli) != binary.LittleEndian.Uint32(data[markerSize:]) {
		return e, 0, false
	}
	e.Epoch = epoch
	e.Sequence = binary.LittleEndian.Uint64(data[16:])
	e.Rows = int(binary.LittleEndian.Uint32(data[24:]))
	e.Checksum = binary.LittleEndian.Uint32(data[32:])
	e.Stream = string(data[headerSize:body])
	length := int64(binary.LittleEndian.Uint32(data[28:]))
	if !measure.ValidName(e.Stream) || length > payloadMax {
		return e, 0, false
	}
	size = int64(body) + length
	if size <= int64(len(data)) {
		e.Payload = data[body:size:size]
	}
	return e, size, true
}

// damage counts what a scan had to skip.
type damage struct {
	// places are regions without an intact record.
	places int64
	bytes  int64
}

// scan calls found for each intact record and returns what lay between them. After a
// damaged record it continues at the next marker with a valid header.
func scan(data []byte, epoch uint64, found func(offset int64, e measure.Envelope)) damage {
	var lost damage
	lostUpTo := -1
	skip := func(from, to int) {
		if from != lostUpTo {
			lost.places++
		}
		lost.bytes += int64(to - from)
		lostUpTo = to
	}
	mark := marker(epoch)
	for at := 0; at < len(data); {
		e, size, ok := parseRecord(data[at:], epoch)
		if ok && e.Payload != nil && measure.Checksum(e.Payload) == e.Checksum {
			found(int64(at), e)
			at += int(size)
			continue
		}
		// Neither is the length of a damaged record trusted: it may be torn, and the
		// next record may start inside it.
		next := len(data)
		if i := bytes.Index(data[at+1:], mark); i >= 0 {
			next = at + 1 + i
		}
		skip(at, next)
		at = next
	}
	return lost
}
