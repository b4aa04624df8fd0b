package frame

import "encoding/binary"

// tagMagic begins a tag: "PLSN".
const tagMagic = 0x504c534e

// Tag names a packet in its own payload, so that an observer on the way or at the far end
// can tell which packet of the schedule it is. All fields are in network byte order:
//
//	magic 4 | train 4 | number 4 | due 8 | balance 2 | 0 2
//
// Due is the intended departure in nanoseconds since the start of the schedule. Balance
// makes the one's complement sum (RFC 1071) of every tag the same, so that the checksum of
// a frame holds for each packet that is made of its template.
type Tag struct {
	Train, Number uint32
	Due           uint64
}

// Patch writes the tag.
func (t Tag) Patch() (p [PatchBytes]byte) {
	binary.BigEndian.PutUint32(p[0:], tagMagic)
	binary.BigEndian.PutUint32(p[4:], t.Train)
	binary.BigEndian.PutUint32(p[8:], t.Number)
	binary.BigEndian.PutUint64(p[12:], t.Due)
	var sum uint32
	for i := 0; i < PatchBytes; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(p[20:], ^uint16(sum))
	return p
}

// ReadTag reads the tag at the beginning of a payload and says whether there is one.
func ReadTag(payload []byte) (Tag, bool) {
	if len(payload) < PatchBytes || binary.BigEndian.Uint32(payload) != tagMagic {
		return Tag{}, false
	}
	t := Tag{
		Train:  binary.BigEndian.Uint32(payload[4:]),
		Number: binary.BigEndian.Uint32(payload[8:]),
		Due:    binary.BigEndian.Uint64(payload[12:]),
	}
	return t, t.Patch() == [PatchBytes]byte(payload)
}
