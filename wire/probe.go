package wire

import (
	"encoding/binary"
	"errors"
)

// ProbePort is the UDP destination port of path probes.
const ProbePort = 25253

// ProbeLength is the length of a path probe in bytes, without padding.
const ProbeLength = 24

// A Probe is the data of a UDP datagram that tests whether packets with a mark in one of
// the encodings arrive: struct wire_probe of wire.h.
type Probe struct {
	// Answer tells an answer from a question.
	Answer bool
	// Marked says that the question was sent with a mark, in Encoding.
	Marked   bool
	Encoding Encoding
	Round    uint16
	// Token is random; an answer has the token of its question.
	Token uint64
	// Read says what a destination program found.
	Read ProbeRead
}

// ProbeRead says whether a destination program read the mark of a probe.
type ProbeRead uint16

// What a destination program finds.
const (
	ProbeUnread ProbeRead = iota
	ProbeMarkRead
	// ProbeMalformed is a mark whose checksum or layout is wrong.
	ProbeMalformed
)

const (
	probeMagic    = 0x504c5650
	probeQuestion = 1
	probeAnswer   = 2
	probeUnmarked = 0xff
)

var errProbe = errors.New("not a path probe")

// Append appends the probe to b.
func (p Probe) Append(b []byte) []byte {
	kind, encoding := byte(probeQuestion), byte(probeUnmarked)
	if p.Answer {
		kind = probeAnswer
	}
	if p.Marked {
		encoding = byte(p.Encoding)
	}
	b = binary.BigEndian.AppendUint32(b, probeMagic)
	b = binary.BigEndian.AppendUint16(b, uint16(p.Read))
	b = binary.BigEndian.AppendUint16(b, ^uint16(p.Read))
	b = append(b, kind, encoding)
	b = binary.BigEndian.AppendUint16(b, p.Round)
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint64(b, p.Token)
}

// ParseProbe reads the probe at the beginning of b. Padding may follow it.
func ParseProbe(b []byte) (Probe, error) {
	if len(b) < ProbeLength || binary.BigEndian.Uint32(b) != probeMagic {
		return Probe{}, errProbe
	}
	read, kind, encoding := binary.BigEndian.Uint16(b[4:]), b[8], b[9]
	switch {
	case read != ^binary.BigEndian.Uint16(b[6:]) || read > uint16(ProbeMalformed):
		return Probe{}, errProbe
	case kind != probeQuestion && kind != probeAnswer:
		return Probe{}, errProbe
	case encoding != probeUnmarked && !Encoding(encoding).valid():
		return Probe{}, errProbe
	}
	p := Probe{
		Answer: kind == probeAnswer, Marked: encoding != probeUnmarked, Round: binary.BigEndian.Uint16(b[10:]),
		Token: binary.BigEndian.Uint64(b[16:]), Read: ProbeRead(read),
	}
	if p.Marked {
		p.Encoding = Encoding(encoding)
	}
	return p, nil
}
