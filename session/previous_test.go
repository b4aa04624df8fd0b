package session

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pillion.dev/wire"
)

// previousFields are those of the tasks in assignments of the version before an agent
// tolerated others, which rejects the whole assignment because of another one.
var previousFields = map[string][]string{
	"destinations": {"session", "device", "peers", "filters", "interval", "granularity", "records"},
	"sources":      {"session", "device", "addresses", "peers", "modules", "encoding", "stamp_every", "sparse_marks", "family", "filters", "sampling", "lease"},
	"traces":       {"session", "peer", "address", "protocol", "every"},
	"points":       {"session", "point", "peers", "filters", "options", "interval", "lease"},
	"":             {"revision", "destinations", "sources", "traces", "points"},
}

// fill sets every field to a value that JSON does not omit.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[Key]() {
			v.Set(reflect.ValueOf(NewKey()))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	}
}

// TestAssignmentForThePreviousVersion: what an agent of that version gets has no field that
// it does not know, even if all fields are set.
func TestAssignmentForThePreviousVersion(t *testing.T) {
	agent := Host{Name: "a", Capabilities: append(namesOf(wire.Encodings()), SparseMarks)}
	a := Assignment{Destinations: make([]DestinationTask, 1), Sources: make([]SourceTask, 1), Traces: make([]TraceTask, 1)}
	fill(reflect.ValueOf(&a.Destinations[0]).Elem())
	fill(reflect.ValueOf(&a.Sources[0]).Elem())
	fill(reflect.ValueOf(&a.Traces[0]).Elem())
	a.Sources[0].Filters, a.Destinations[0].Filters = nil, nil
	a.Sources[0].Encoding = namesOf(wire.Encodings())[0]
	Restrict(&a, "a", []Host{agent})
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		t.Fatal(err)
	}
	for name, part := range parts {
		if !slices.Contains(previousFields[""], name) {
			t.Errorf("field %q of the assignment", name)
		}
		var tasks []map[string]json.RawMessage
		if json.Unmarshal(part, &tasks) != nil {
			continue
		}
		for _, task := range tasks {
			for _, field := range slices.Sorted(maps.Keys(task)) {
				if !slices.Contains(previousFields[name], field) {
					t.Errorf("%s: field %q", name, field)
				}
			}
		}
	}
}
