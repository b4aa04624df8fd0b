package wire

import (
	"fmt"
	"slices"
	"strings"
)

// An Encoding is the way in which a mark travels in a packet.
type Encoding uint8

// description is a row of WIRE_ENCODINGS in wire.h.
type description struct {
	name     string
	packets  Class // all properties that a packet may have
	carries  Content
	overhead [5]int // bytes added by delay, loss, both, tagged loss, tagged both
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
func EncodingNames() string { return strings.ReplaceAll(EncodingList(Encodings()).String(), ",", ", ") }

// An EncodingList is what a source may use: a packet gets the first that applies to it.
type EncodingList []Encoding

// DefaultEncodings returns the list that is used unless a user chooses another.
func DefaultEncodings() EncodingList { return slices.Clone(defaultEncodings) }

// ParseEncodings returns the list that s names: encodings in the order of preference,
// separated by commas.
func ParseEncodings(s string) (EncodingList, error) {
	var list EncodingList
	for name := range strings.SplitSeq(s, ",") {
		e, err := ParseEncoding(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.Contains(list, e) {
			return nil, fmt.Errorf("parse encodings %q: duplicate %v", s, e)
		}
		list = append(list, e)
	}
	return list, nil
}

// String returns the names of the encodings, separated by commas.
func (l EncodingList) String() string {
	names := make([]string, 0, len(l))
	for _, e := range l {
		names = append(names, e.String())
	}
	return strings.Join(names, ",")
}

// Choose returns the first encoding of the list that applies to packets of a class.
func (l EncodingList) Choose(c Class) (Encoding, bool) {
	for _, e := range l {
		if e.Applies(c) {
			return e, true
		}
	}
	return 0, false
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

// Carries returns what marks in the encoding can carry.
func (e Encoding) Carries() Content {
	if !e.valid() {
		return 0
	}
	return descriptions[e].carries
}

// Overhead returns the number of bytes that a mark with these modules adds to
// a packet, zero for an unknown encoding or a set that no mark can have.
func (e Encoding) Overhead(m Module) int {
	if !e.valid() || !m.Valid() {
		return 0
	}
	return descriptions[e].overhead[m-1]
}

// Size returns the number of bytes that a mark adds to a packet: one with a tag, one whose loss
// option has a byte of flags, because the mark is sparse or names the fields of an aggregated flow,
// and one with options of modules of this size, where the encoding carries any.
func (e Encoding) Size(m Module, tagged, flags bool, options int) int {
	size := e.Overhead(m)
	if tagged {
		size = e.TaggedOverhead(m)
	}
	if size == 0 || e.Carries()&CarriesModules == 0 {
		return size
	}
	if e != Native {
		return size + options
	}
	// A header of IPv6 options is padded to 8 bytes: options of modules lie before the padding.
	own := optionsHead
	if m&Delay != 0 {
		own += delayOption
	}
	if m&Loss != 0 {
		own += lossOption
		if tagged {
			own += tagBytes
		}
		if flags {
			own++
		}
	}
	return (own + options + 7) &^ 7
}

// Sizes of the parts of a native header, in bytes.
const (
	optionsHead = 2
	delayOption = 18
	lossOption  = 6
	tagBytes    = 4
)

// TaggedOverhead is the same for a mark with a tag, which carries Loss in any case.
func (e Encoding) TaggedOverhead(m Module) int {
	if !e.valid() || !m.Valid() {
		return 0
	}
	if m == Loss {
		return descriptions[e].overhead[3]
	}
	return descriptions[e].overhead[4]
}

// valid reports whether wire.h lists the encoding.
func (e Encoding) valid() bool { return int(e) < len(descriptions) }
