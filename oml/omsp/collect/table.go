package collect

import (
	"fmt"
	"strings"

	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
)

// Columns between the time and the fields of a tuple.
var columns = []measure.Field{
	measure.TimeField,
	{Name: "oml_sender", Type: measure.String, Doc: "sender-id of the client"},
	{Name: "oml_session", Type: measure.Uint64, Doc: "session of a client with acknowledgements; 0 for others"},
	{Name: "oml_seq", Type: measure.Int64, Doc: "client's sequence number; a gap is loss"},
	{Name: "oml_ts_client", Type: measure.Float64, Unit: "s", Doc: "client's time since the start of the domain"},
	{Name: "oml_ts_server", Type: measure.Float64, Unit: "s", Doc: "server's time since the start of the domain"},
}

// Columns returns the columns of every table before its fields.
func Columns() []measure.Field { return append([]measure.Field(nil), columns...) }

var columnTypes = map[omsp.Type]measure.Type{
	omsp.Int32: measure.Int32, omsp.Uint32: measure.Uint32, omsp.Int64: measure.Int64, omsp.Uint64: measure.Uint64,
	omsp.Double: measure.Float64, omsp.String: measure.String, omsp.Blob: measure.Binary, omsp.GUID: measure.Uint64,
	omsp.Bool:                measure.Bool,
	omsp.Int32 | omsp.Vector: measure.Int64List, omsp.Int64 | omsp.Vector: measure.Int64List,
	omsp.Uint32 | omsp.Vector: measure.Uint64List, omsp.Uint64 | omsp.Vector: measure.Uint64List,
	omsp.Bool | omsp.Vector:   measure.Uint64List,
	omsp.Double | omsp.Vector: measure.String, // as "[1.5, -0.1]": the archive has no lists of doubles
}

// SchemaOf returns the archive's schema of a stream, with that name.
func SchemaOf(name, doc string, s omsp.Schema) (*measure.Schema, error) {
	schema := &measure.Schema{Name: name, Doc: doc, Fields: Columns()}
	used := map[string]bool{}
	for _, f := range columns {
		used[f.Name] = true
	}
	used["agent"], used["arrived"] = true, true // added by the archive
	for _, f := range s.Fields {
		column := ColumnName(f.Name, used)
		used[column] = true
		schema.Fields = append(schema.Fields, measure.Field{Name: column, Type: columnTypes[f.Type], Doc: f.Name + " as " + f.Type.String()})
	}
	if err := schema.Validate(); err != nil {
		return nil, fmt.Errorf("create table of %s: %w", s.Name, err)
	}
	return schema, nil
}

const columnBytes = 60

// ColumnName derives an unused column name from a field's: lower case, starting with a
// letter.
func ColumnName(field string, used map[string]bool) string {
	name := strings.TrimLeft(strings.ToLower(field), "_")
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = "f_" + name
	}
	name = name[:min(len(name), columnBytes)]
	for n, plain := 2, name; used[name]; n++ {
		name = fmt.Sprintf("%s_%d", plain, n)
	}
	return name
}
