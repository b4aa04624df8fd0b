package session

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// visible has the fields of structures by type: the server asks for them for each agent and round.
var visible sync.Map

// fields are those of a structure, those of embedded structures included.
func fields(of reflect.Type) []reflect.StructField {
	if found, ok := visible.Load(of); ok {
		return found.([]reflect.StructField)
	}
	all := reflect.VisibleFields(of)
	visible.Store(of, all)
	return all
}

// field is that of a structure with a name in JSON.
func field(of reflect.Value, name string) (reflect.Value, bool) {
	for _, f := range fields(of.Type()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && name != "" {
			return of.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

// Value is the value of a setting of the specification as text, empty if it has none.
func (s *Spec) Value(name string) string {
	v, ok := field(reflect.ValueOf(s).Elem(), name)
	if !ok || v.IsZero() && v.Kind() != reflect.Bool {
		return ""
	}
	switch value := v.Interface().(type) {
	case string:
		return value
	case bool:
		return strconv.FormatBool(value)
	case uint32:
		return strconv.FormatUint(uint64(value), 10)
	case Duration:
		return value.String()
	}
	return ""
}

// completeSettings fills in the defaults of the settings that follow from their descriptions.
func (s *Spec) completeSettings() {
	of := reflect.ValueOf(s).Elem()
	for _, one := range settings {
		v, ok := field(of, one.Name)
		if one.Group == "" || one.Default == "" || !ok || !v.IsZero() {
			continue
		}
		switch v.Interface().(type) {
		case string:
			v.SetString(one.Default)
		case uint32:
			n, _ := strconv.ParseUint(one.Default, 10, 32)
			v.SetUint(n)
		case Duration:
			v.Set(reflect.ValueOf(defaultDuration(one.Name)))
		}
	}
}

// settings checks those that follow from their descriptions.
func (p *problems) settings(s Spec) {
	for _, one := range settings {
		if value := s.Value(one.Name); one.Group != "" && !one.Open && value != "" {
			p.setting(one.Name, value)
		}
	}
}

// fillTask gives the fields of a task that have the names of keys of the specification their values,
// if they are of the same types.
func fillTask[T any](task *T, s *Spec) {
	from, to := reflect.ValueOf(s).Elem(), reflect.ValueOf(task).Elem()
	for _, f := range fields(to.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if v, ok := field(from, name); ok && !f.Anonymous && v.Type() == f.Type {
			to.FieldByIndex(f.Index).Set(v)
		}
	}
}

// restrictFields clears the fields of a task that require a capability which the agent lacks: the
// tag needs names it.
func restrictFields[T any](task *T, h Host) {
	to := reflect.ValueOf(task).Elem()
	for _, f := range fields(to.Type()) {
		if needs := f.Tag.Get("needs"); needs != "" && !h.can(needs) {
			to.FieldByIndex(f.Index).SetZero()
		}
	}
}
