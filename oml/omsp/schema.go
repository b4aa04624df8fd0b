package omsp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Field of a stream.
type Field struct {
	Name string
	Type Type
}

// Schema of the tuples of one stream.
type Schema struct {
	// Index identifies the stream in tuples.
	Index  int
	Name   string
	Fields []Field
}

// MetadataName is the name of the metadata stream, which has index 0.
const MetadataName = "_experiment_metadata"

// Metadata is schema 0, predefined since protocol 4.
var Metadata = Schema{Index: 0, Name: MetadataName, Fields: []Field{{"subject", String}, {"key", String}, {"value", String}}}

// schemaKey is the metadata key that defines a stream.
const schemaKey = "schema"

// ParseSchema parses "<index> <name> <field>:<type> ...", with any white space.
func ParseSchema(text string) (Schema, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return Schema{}, fmt.Errorf("read schema %q: want an index and a name", text)
	}
	index, err := strconv.ParseUint(words[0], 10, 31)
	if err != nil {
		return Schema{}, fmt.Errorf("read schema %q: invalid index %q", text, words[0])
	}
	s := Schema{Index: int(index), Name: words[1]}
	if !ValidName(s.Name) {
		return Schema{}, fmt.Errorf("read schema %q: invalid name %q: use letters, digits and _", text, s.Name)
	}
	names := make(map[string]bool, len(words))
	for _, word := range words[2:] {
		name, kind, found := strings.Cut(word, ":")
		if !found || !ValidName(name) {
			return Schema{}, fmt.Errorf("read schema %q: %q is not field:type", text, word)
		}
		t, err := ParseType(kind)
		if err != nil {
			return Schema{}, fmt.Errorf("read schema %q, field %s: %w", text, name, err)
		}
		if names[name] {
			return Schema{}, fmt.Errorf("read schema %q: duplicate field %s", text, name)
		}
		names[name] = true
		s.Fields = append(s.Fields, Field{name, t})
	}
	return s, nil
}

// ValidName reports whether a text is a valid name of a stream or field: a letter or _,
// then letters, digits and _.
func ValidName(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// String returns the schema as in a header.
func (s Schema) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d %s", s.Index, s.Name)
	for _, f := range s.Fields {
		text.WriteString(" " + f.Name + ":" + f.Type.String())
	}
	return text.String()
}

// Same reports whether two schemas have the same name and fields.
func (s Schema) Same(other Schema) bool {
	return s.Name == other.Name && slices.Equal(s.Fields, other.Fields)
}
