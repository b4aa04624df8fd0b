package spool

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"pillion.dev/measure"
)

// A record is one batch in a file, little-endian:
//
//	 0  magic, "PSP1"; its first byte is lower case when the batch is delivered
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
	heldMark      = 'P'
	deliveredMark = 'p'
	checksumAt    = 12
	headerSize    = 37
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// marker follows the first byte of each record.
func marker(epoch uint64) []byte {
	return binary.LittleEndian.AppendUint64([]byte("SP1"), epoch)
}

// header returns a record without its payload.
func header(e *measure.Envelope) []byte {
	b := append([]byte{heldMark}, marker(e.Epoch)...)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, e.Sequence)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Rows))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Payload)))
	b = binary.LittleEndian.AppendUint32(b, e.Checksum)
	b = append(b, byte(len(e.Stream)))
	b = append(b, e.Stream...)
	binary.LittleEndian.PutUint32(b[checksumAt:], crc32.Checksum(b[16:], castagnoli))
	return b
}

func recordSize(e *measure.Envelope) int64 {
	return int64(headerSize + len(e.Stream) + len(e.Payload))
}

// parseRecord parses the intact record at the start of data.
func parseRecord(data []byte, epoch uint64) (e measure.Envelope, delivered, ok bool) {
	if len(data) < headerSize || data[0]|0x20 != deliveredMark || !bytes.HasPrefix(data[1:], marker(epoch)) {
		return e, false, false
	}
	body := headerSize + int(data[36])
	if len(data) < body || crc32.Checksum(data[16:body], castagnoli) != binary.LittleEndian.Uint32(data[checksumAt:]) {
		return e, false, false
	}
	e.Epoch = epoch
	e.Sequence = binary.LittleEndian.Uint64(data[16:])
	e.Rows = int(binary.LittleEndian.Uint32(data[24:]))
	e.Checksum = binary.LittleEndian.Uint32(data[32:])
	e.Stream = string(data[headerSize:body])
	length := int64(binary.LittleEndian.Uint32(data[28:]))
	if !measure.ValidName(e.Stream) || length > payloadMax || length > int64(len(data)-body) {
		return e, false, false
	}
	e.Payload = data[body : body+int(length) : body+int(length)]
	return e, data[0] == deliveredMark, measure.Checksum(e.Payload) == e.Checksum
}

// scan calls found for each intact record and returns how many bytes are not in one. After a
// damaged record it continues at the next marker: neither is its length trusted, as it
// may be torn, and the next record may start inside it.
func scan(data []byte, epoch uint64, found func(offset int64, e measure.Envelope, delivered bool)) (skipped int64) {
	mark := marker(epoch)
	for at := 0; at < len(data); {
		if e, delivered, ok := parseRecord(data[at:], epoch); ok {
			found(int64(at), e, delivered)
			at += int(recordSize(&e))
			continue
		}
		next := len(data)
		if i := bytes.Index(data[min(at+2, len(data)):], mark); i >= 0 {
			next = at + 1 + i
		}
		skipped += int64(next - at)
		at = next
	}
	return skipped
}
