package session

import (
	"reflect"
	"strings"
	"testing"

	"pillion.dev/measure/point"
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
