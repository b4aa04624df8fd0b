package relay

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pillion.dev/measure"
	"pillion.dev/oml/omsp"
)

var table = omsp.Schema{Name: "Load_1", Fields: []omsp.Field{
	{Name: "CPU", Type: omsp.Double}, {Name: "cpu", Type: omsp.Uint64}, {Name: "_x", Type: omsp.Int32 | omsp.Vector}, {Name: "agent", Type: omsp.Blob},
}}

// TestOrigin: OriginOf is the inverse of Schema, for any names.
func TestOrigin(t *testing.T) {
	many := omsp.Schema{Name: strings.Repeat("n", nameMax)}
	for i := range 250 {
		many.Fields = append(many.Fields, omsp.Field{Name: "f" + strings.Repeat("x", i), Type: omsp.String})
	}
	for name, o := range map[string]Origin{
		"plain":       {Domain: "lab", Start: 1_700_000_000, Table: table},
		"odd domain":  {Domain: "../x\x1b[2J'; DROP \"é\" oml 1", Start: 0, Table: table},
		"metadata":    {Domain: "lab", Start: StartMax, Table: omsp.Metadata},
		"no field":    {Table: omsp.Schema{Name: "_"}},
		"many fields": {Domain: strings.Repeat("d", 1000), Table: many},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := o.Schema()
			if err != nil {
				t.Fatal(err)
			}
			read, err := OriginOf(s)
			if err != nil || !reflect.DeepEqual(read, o) {
				t.Errorf("got %v, %v, want %v", read, err, o)
			}
			if read.IsMetadata() != (name == "metadata") {
				t.Error("metadata is not recognised")
			}
			later := o
			later.Start = 7
			if other, _ := later.Schema(); other.Name != s.Name {
				t.Error("the name depends on the start")
			}
		})
	}
}

// TestRefused: streams that Schema would not return are invalid.
func TestRefused(t *testing.T) {
	for name, o := range map[string]Origin{
		"long domain": {Domain: strings.Repeat("d", 1023), Table: table},
		"late start":  {Start: StartMax + 1, Table: table},
		"early start": {Start: -1, Table: table},
		"bad table":   {Table: omsp.Schema{Name: "a b"}},
		"long table":  {Table: omsp.Schema{Name: strings.Repeat("n", nameMax+1)}},
		"bad field":   {Table: omsp.Schema{Name: "t", Fields: []omsp.Field{{Name: "a as b", Type: omsp.Bool}}}},
	} {
		if _, err := o.Schema(); !errors.Is(err, ErrOrigin) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*measure.Schema){
		"name":           func(s *measure.Schema) { s.Name = Prefix + strings.Repeat("0", 32) },
		"other name":     func(s *measure.Schema) { s.Name = "flows" },
		"description":    func(s *measure.Schema) { s.Doc = "tuples" },
		"version":        func(s *measure.Schema) { s.Doc = strings.Replace(s.Doc, "oml 1", "oml 2", 1) },
		"start":          func(s *measure.Schema) { s.Doc = strings.Replace(s.Doc, " 5 ", " +5 ", 1) },
		"large start":    func(s *measure.Schema) { s.Doc = strings.Replace(s.Doc, " 5 ", " 9223372036854775807 ", 1) },
		"domain":         func(s *measure.Schema) { s.Fields[1].Doc = `"other"` },
		"domain spelled": func(s *measure.Schema) { s.Fields[1].Doc = "`lab`" },
		"domain bytes":   func(s *measure.Schema) { s.Fields[1].Doc = `"\xff"` },
		"few columns":    func(s *measure.Schema) { s.Fields = s.Fields[:3] },
		"column type":    func(s *measure.Schema) { s.Fields[6].Type = measure.String },
		"field type":     func(s *measure.Schema) { s.Fields[6].Doc = "CPU as real" },
		"field name":     func(s *measure.Schema) { s.Fields[6].Name = "other" },
		"lost field":     func(s *measure.Schema) { s.Fields = s.Fields[:9] },
		"unit":           func(s *measure.Schema) { s.Fields[6].Unit = "s" },
	} {
		s, err := Origin{Domain: "lab", Start: 5, Table: table}.Schema()
		if err != nil {
			t.Fatal(err)
		}
		change(s)
		if o, err := OriginOf(s); !errors.Is(err, ErrOrigin) {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
}

// FuzzOriginOf: Schema is the inverse of OriginOf.
func FuzzOriginOf(f *testing.F) {
	f.Add("omlx_0", "oml 1 5 t", `"lab"`, "a as double", "a", uint8(6))
	f.Add("omlx_connections", "oml 1 -5 t", "`lab`", "a as [int32]", "f_a", uint8(10))
	f.Fuzz(func(t *testing.T, name, doc, domain, field, column string, kind uint8) {
		s, err := Origin{Table: omsp.Schema{Name: "t"}}.Schema()
		if err != nil {
			t.Fatal(err)
		}
		s.Doc, s.Fields[1].Doc = doc, domain
		s.Fields = append(s.Fields, measure.Field{Name: column, Type: measure.Type(kind), Doc: field})
		// The fuzzer cannot guess the name: use the right one in some inputs.
		if o, err := OriginOf(s); err == nil {
			t.Errorf("%v has a wrong name", o)
		}
		s.Name = name
		o, err := OriginOf(s)
		if err != nil {
			return
		}
		if again, err := o.Schema(); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%v became %v, %v", s, again, err)
		}
	})
}
