package wire

import (
	"fmt"
	"strings"
)

// An Encoding is the way in which a mark travels in a packet.
type Encoding uint8

// description is a row of WIRE_ENCODINGS in wire.h.
type description struct {
	name     string
	packets  Class  // all properties that a packet may have
	overhead [3]int // bytes added by delay, loss and both
	doc      string
}

// Encodings returns all encodings by number.
func Encodings() []Encoding {
	all := make([]Encoding, len(descriptions))
	for i := range all {
		all[i] = Encoding(i)
	}
	return all
}

// EncodingNames returns the names of all encodings, separated by commas.
func EncodingNames() string {
	names := make([]string, 0, len(descriptions))
	for _, e := range Encodings() {
		names = append(names, e.String())
	}
	return strings.Join(names, ", ")
}

// ParseEncoding returns the encoding with the name s.
func ParseEncoding(s string) (Encoding, error) {
	for _, e := range Encodings() {
		if s == e.String() {
			return e, nil
		}
	}
	return 0, fmt.Errorf("parse encoding %q: not one of %s", s, EncodingNames())
}

// String returns the encoding's name.
func (e Encoding) String() string {
	if !e.valid() {
		return fmt.Sprintf("Encoding(%d)", uint8(e))
	}
	return descriptions[e].name
}

// Doc describes the encoding in sentences.
func (e Encoding) Doc() string {
	if !e.valid() {
		return ""
	}
	return descriptions[e].doc
}

// Applies reports whether the encoding can mark packets with these properties: all of
// a packet, or only those that matter, such as the version of IP.
func (e Encoding) Applies(c Class) bool { return e.valid() && c&^descriptions[e].packets == 0 }

// Overhead returns the number of bytes that a mark with these modules adds to
// a packet, zero for an unknown encoding or a set that no mark can have.
func (e Encoding) Overhead(m Module) int {
	if !e.valid() || !m.Valid() {
		return 0
	}
	return descriptions[e].overhead[m-1]
}

// valid reports whether wire.h lists the encoding.
func (e Encoding) valid() bool { return int(e) < len(descriptions) }
