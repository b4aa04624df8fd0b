package fivetuple

import (
	"fmt"
	"slices"
	"strings"
)

// Fields are the fields in which two flows differ, as bits.
type Fields uint32

// The five fields; probe/bpf/flow.h has the same values.
const (
	Src Fields = 1 << iota
	Dst
	Protocol
	Sport
	Dport

	All = Src | Dst | Protocol | Sport | Dport
)

var fieldNames = []string{"src", "dst", "proto", "sport", "dport"}

// FieldNames are the names of the five fields, in their order.
func FieldNames() []string { return slices.Clone(fieldNames) }

// ParseFields reads names separated by commas, such as "src,dst,proto".
func ParseFields(text string) (Fields, error) {
	var fields Fields
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(fieldNames, strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("read flow fields: no field %q; there are %s", name, strings.Join(fieldNames, ", "))
		}
		fields |= 1 << i
	}
	return fields, nil
}

// String gives the names as ParseFields reads them.
func (f Fields) String() string {
	var names []string
	for i, n := range fieldNames {
		if f&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// MarshalText is String.
func (f Fields) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText reads what ParseFields does; no text means no fields.
func (f *Fields) UnmarshalText(text []byte) (err error) {
	*f = 0
	if len(text) > 0 {
		*f, err = ParseFields(string(text))
	}
	return err
}

// Of returns the key of the flow that a packet of another one belongs to, if flows are told
// apart by these fields: the other fields are wildcards.
func (f Fields) Of(k Key) Key {
	var of Key
	if f&Src != 0 {
		of.Src = k.Src
	}
	if f&Dst != 0 {
		of.Dst = k.Dst
	}
	if f&Protocol != 0 {
		of.Protocol = k.Protocol
	}
	if f&Sport != 0 {
		of.Sport = k.Sport
	}
	if f&Dport != 0 {
		of.Dport = k.Dport
	}
	return of
}
