// Package measure holds what all measurements have in common: a point with a typed
// schema, samples injected there, filters that turn windows of samples into rows,
// and streams of rows cut into numbered Arrow record batches. standard.go has the schemas of
// Pillion's own streams.
//
// Of the packages below, flows has the row of the stream flows and its sum, histogram the buckets,
// point and module describe what sessions can measure, skew estimates clock offsets, verdict
// compares intervals with targets, and application is what the core knows of applications.
//
// It knows neither eBPF nor the network nor where batches go. In the flow it
// stands between the probes, which inject, and the agent's spool.
package measure

import (
	"errors"
	"fmt"
	"regexp"
	"unicode"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// Type is the type of a column.
type Type uint8

// The types. Time is nanoseconds since 1970 in UTC; Uint64List and Int64List hold
// any number of values, a histogram's buckets for one.
const (
	Bool Type = iota + 1
	Int32
	Uint32
	Int64
	Uint64
	Float64
	String
	Binary
	Time
	Int64List
	Uint64List
)

var arrowTypes = map[Type]arrow.DataType{
	Bool:       arrow.FixedWidthTypes.Boolean,
	Int32:      arrow.PrimitiveTypes.Int32,
	Uint32:     arrow.PrimitiveTypes.Uint32,
	Int64:      arrow.PrimitiveTypes.Int64,
	Uint64:     arrow.PrimitiveTypes.Uint64,
	Float64:    arrow.PrimitiveTypes.Float64,
	String:     arrow.BinaryTypes.String,
	Binary:     arrow.BinaryTypes.Binary,
	Time:       &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"},
	Int64List:  arrow.ListOf(arrow.PrimitiveTypes.Int64),
	Uint64List: arrow.ListOf(arrow.PrimitiveTypes.Uint64),
}

var typeNames = map[Type]string{
	Bool: "bool", Int32: "int32", Uint32: "uint32", Int64: "int64", Uint64: "uint64", Float64: "float64",
	String: "string", Binary: "binary", Time: "time", Int64List: "int64[]", Uint64List: "uint64[]",
}

// String is the type's name in documents and tables.
func (t Type) String() string { return typeNames[t] }

// Field is one column.
type Field struct {
	Name string
	Type Type
	// Unit of the values, such as "ns" or "packets"; empty if there is none.
	Unit string
	// Doc says what the values are.
	Doc string
}

// Schema is what one sample, or one row, consists of. Its first field is always
// TimeField. Any value but the time may be null.
type Schema struct {
	// Name of the stream: a lowercase letter, then lowercase letters, digits and
	// underscores, at most 64 in all.
	Name   string
	Doc    string
	Fields []Field
}

// TimeField is the first field of every schema.
var TimeField = Field{Name: "time", Type: Time, Doc: "when it was measured; the end of the window for a row of several samples"}

// ErrSchema marks an invalid schema, or invalid columns of a batch.
var ErrSchema = errors.New("bad schema")

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// ValidName reports whether a name is valid for a stream or a column.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// What one batch can make the archive create, or a terminal show, is bounded.
const (
	fieldsMax = 256
	// unitMax and docMax are bytes.
	unitMax = 64
	docMax  = 1024
)

// Validate checks the schema.
func (s *Schema) Validate() error {
	if !ValidName(s.Name) {
		return fmt.Errorf("%w: stream name %q: use a lowercase letter, then lowercase letters, digits, underscores, at most 64", ErrSchema, s.Name)
	}
	if len(s.Fields) == 0 || s.Fields[0].Name != TimeField.Name || s.Fields[0].Type != Time {
		return fmt.Errorf("%w: stream %q: the first field must be time", ErrSchema, s.Name)
	}
	if len(s.Fields) > fieldsMax {
		return fmt.Errorf("%w: stream %q: %d fields, at most %d", ErrSchema, s.Name, len(s.Fields), fieldsMax)
	}
	if err := checkText(s.Doc, docMax); err != nil {
		return fmt.Errorf("%w: stream %q: description %w", ErrSchema, s.Name, err)
	}
	seen := map[string]bool{}
	for _, f := range s.Fields {
		if !ValidName(f.Name) {
			return fmt.Errorf("%w: stream %q: field name %q", ErrSchema, s.Name, f.Name)
		}
		if seen[f.Name] {
			return fmt.Errorf("%w: stream %q: two fields named %q", ErrSchema, s.Name, f.Name)
		}
		seen[f.Name] = true
		if arrowTypes[f.Type] == nil {
			return fmt.Errorf("%w: stream %q: field %q has no type", ErrSchema, s.Name, f.Name)
		}
		if err := errors.Join(checkText(f.Unit, unitMax), checkText(f.Doc, docMax)); err != nil {
			return fmt.Errorf("%w: stream %q: unit or description of field %q %w", ErrSchema, s.Name, f.Name, err)
		}
	}
	return nil
}

// checkText rejects text that is unsafe to display: units and descriptions come from
// other hosts and are shown in terminals.
func checkText(text string, limit int) error {
	if len(text) > limit {
		return fmt.Errorf("of %d bytes: at most %d", len(text), limit)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("%q: not UTF-8", text)
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return fmt.Errorf("%q: holds a control character", text)
		}
	}
	return nil
}

// Index is the position of the field of that name, or -1.
func (s *Schema) Index(name string) int {
	for i, f := range s.Fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Keys of the metadata in an Arrow schema.
const (
	metaStream = "pillion.stream"
	metaUnit   = "unit"
	metaDoc    = "doc"
)

// Arrow is the schema as Arrow has it; units and descriptions go into metadata.
func (s *Schema) Arrow() *arrow.Schema {
	fields := make([]arrow.Field, len(s.Fields))
	for i, f := range s.Fields {
		fields[i] = arrow.Field{
			Name: f.Name, Type: arrowTypes[f.Type], Nullable: i != 0,
			Metadata: arrow.NewMetadata([]string{metaUnit, metaDoc}, []string{f.Unit, f.Doc}),
		}
	}
	meta := arrow.NewMetadata([]string{metaStream, metaDoc}, []string{s.Name, s.Doc})
	return arrow.NewSchema(fields, &meta)
}

// SchemaOf reads what Arrow wrote. A type that no Type stands for is an error.
func SchemaOf(a *arrow.Schema) (*Schema, error) {
	meta := a.Metadata()
	s := &Schema{Name: metaValue(meta, metaStream), Doc: metaValue(meta, metaDoc)}
	for _, f := range a.Fields() {
		t, ok := typeOf(f.Type)
		if !ok {
			return nil, fmt.Errorf("%w: field %q has type %v", ErrSchema, f.Name, f.Type)
		}
		s.Fields = append(s.Fields, Field{
			Name: f.Name, Type: t, Unit: metaValue(f.Metadata, metaUnit), Doc: metaValue(f.Metadata, metaDoc),
		})
	}
	return s, s.Validate()
}

func typeOf(a arrow.DataType) (Type, bool) {
	for t, known := range arrowTypes {
		if arrow.TypeEqual(a, known) {
			return t, true
		}
	}
	return 0, false
}

func metaValue(m arrow.Metadata, key string) string {
	value, _ := m.GetValue(key)
	return value
}

// ArrowType is the type in Arrow that a Type stands for.
func ArrowType(t Type) arrow.DataType { return arrowTypes[t] }
