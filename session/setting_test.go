package session

import (
	"reflect"
	"strings"
	"testing"

	"pillion.dev/measure/point"
	"pillion.dev/wire"
)

// TestSettings checks that each setting is a field of the specification or of its
// sampling, with a valid default, if any, and, if it is a choice, a meaning for each value.
func TestSettings(t *testing.T) {
	fields := map[string]bool{}
	for _, of := range []reflect.Type{reflect.TypeFor[Spec](), reflect.TypeFor[Sampling]()} {
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields[name] = true
		}
	}
	for _, s := range Settings() {
		if !fields[s.Name] {
			t.Errorf("a specification has no field %s", s.Name)
		}
		if err := s.Check(s.Default); s.Default != "" && err != nil {
			t.Errorf("default of %s: %v", s.Name, err)
		}
		if s.Range() == "" && s.Type != point.Switch || len(s.Choices) != len(s.ChoiceDocs) {
			t.Errorf("%s: range %q, %d meanings of %d values", s.Name, s.Range(), len(s.ChoiceDocs), len(s.Choices))
		}
	}
	if err := (Spec{Name: "a", Sources: []string{"h1"}, Destinations: []string{"h2"}}).Validate(); err != nil {
		t.Errorf("the defaults are invalid: %v", err)
	}
}

// TestCompleteMarking: a source without a session has the defaults and bounds of sessions.
func TestCompleteMarking(t *testing.T) {
	for _, row := range []struct {
		name     string
		marking  wire.Marking
		problem  string
		complete wire.Marking
	}{
		{"defaults", wire.Marking{}, "", (Spec{}).Complete().Marking},
		{"given", wire.Marking{StampEvery: 3, Flow: pairFields}, "", (Spec{Marking: wire.Marking{StampEvery: 3, Flow: pairFields}}).Complete().Marking},
		{"out of range", wire.Marking{StampEvery: 5000}, "read stamp_every: 5000 is out of range: use 1 to 4096", wire.Marking{}},
		{"short", wire.Marking{HopsGap: 1}, "read hops_gap: 1ns is out of range: use 10ms to 1m", wire.Marking{}},
	} {
		switch got, err := CompleteMarking(row.marking); {
		case err != nil && err.Error() != row.problem || err == nil && row.problem != "":
			t.Errorf("%s: %v, want %q", row.name, err, row.problem)
		case err == nil && got != row.complete:
			t.Errorf("%s: %+v, want %+v", row.name, got, row.complete)
		}
	}
}

// TestSettingFields: the pointer of a setting is to the field of its name, and each setting of marks is described.
func TestSettingFields(t *testing.T) {
	var spec Spec
	of, described := reflect.ValueOf(&spec).Elem(), map[any]bool{}
	for _, field := range reflect.VisibleFields(of.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		for _, s := range Settings() {
			if s.Name == name && s.Field != nil {
				at := of.FieldByIndex(field.Index).Addr().Interface()
				if described[at] = true; s.Field(&spec) != at {
					t.Errorf("setting %s is another field", name)
				}
			}
		}
	}
	for _, s := range Settings() {
		if s.Field != nil && !described[s.Field(&spec)] {
			t.Errorf("setting %s has no field of its name", s.Name)
		}
	}
	marking := reflect.ValueOf(&spec.Marking).Elem()
	for i := range marking.NumField() {
		if name := marking.Type().Field(i).Name; name != "Sampling" && !described[marking.Field(i).Addr().Interface()] {
			t.Errorf("no setting describes %s", name)
		}
	}
}
