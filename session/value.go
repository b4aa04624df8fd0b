package session

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// Value is the value of a setting of the specification as text, empty if it has none.
func (s *Spec) Value(name string) string {
	i := slices.IndexFunc(settings, func(one Setting) bool { return one.Name == name })
	if i < 0 || settings[i].Field == nil {
		return ""
	}
	return settings[i].value(s)
}

func (s *Setting) value(of *Spec) string {
	switch value := s.Field(of).(type) {
	case *string:
		return *value
	case *bool:
		return strconv.FormatBool(*value)
	case *uint32:
		if *value != 0 {
			return strconv.FormatUint(uint64(*value), 10)
		}
	case *Duration:
		if *value != 0 {
			return value.String()
		}
	case *fivetuple.Fields:
		return value.String()
	}
	return ""
}

// completeSettings fills in the defaults of the settings that follow from their descriptions.
func (s *Spec) completeSettings() {
	for _, one := range settings {
		if one.Group == "" || one.Default == "" || one.value(s) != "" {
			continue
		}
		switch value := one.Field(s).(type) {
		case *string:
			*value = one.Default
		case *uint32:
			n, _ := strconv.ParseUint(one.Default, 10, 32)
			*value = uint32(n)
		case *Duration:
			*value = defaultDuration(one.Name)
		case *fivetuple.Fields:
			*value, _ = fivetuple.ParseFields(one.Default)
		}
	}
}

// settings checks those that follow from their descriptions.
func (p *problems) settings(s Spec) {
	for _, one := range settings {
		if one.Group == "" || one.Open {
			continue
		}
		if value := one.value(&s); value != "" {
			p.setting(one.Name, value)
		}
	}
}

// CompleteMarking fills in the defaults of settings that are given without a session, and checks their bounds.
func CompleteMarking(m wire.Marking) (wire.Marking, error) {
	s := Spec{Marking: m}
	s.completeSettings()
	var p problems
	if p.settings(s); len(p) > 0 {
		return m, fmt.Errorf("read %v", p[0])
	}
	return s.Marking, nil
}

// restrictFields clears the fields of a task that require a capability which the agent lacks: the
// tag needs names it.
func restrictFields[T any](task *T, h Host) {
	to := reflect.ValueOf(task).Elem()
	for _, f := range reflect.VisibleFields(to.Type()) {
		if needs := f.Tag.Get("needs"); needs != "" && !h.can(needs) {
			to.FieldByIndex(f.Index).SetZero()
		}
	}
}
