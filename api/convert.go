package api

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/session"
)

// SpecMessage converts the specification of a session to the message of the API.
func SpecMessage(s session.Spec) *pillionv1.SessionSpec { return Message[pillionv1.SessionSpec](s) }

// SpecOf converts the message of the API to the specification of a session. Only values that the types of
// session.Spec cannot hold are problems, such as an invalid filter; package session validates the rest.
func SpecOf(m *pillionv1.SessionSpec) (session.Spec, []session.Problem) {
	var s session.Spec
	var d decoder
	d.message("", m.ProtoReflect(), reflect.ValueOf(&s).Elem())
	return s, d.problems
}

// Message converts a struct into the message that has the same fields, by their
// names in JSON. Fields that only one of them has, and zero values, are left out; so is
// a time that JSON cannot hold: a host with a wrong clock must not make the whole
// response fail.
func Message[T any, M interface {
	*T
	proto.Message
}](v any) M {
	m := M(new(T))
	encodeMessage(m.ProtoReflect(), reflect.ValueOf(v))
	return m
}

// Messages converts a list as Message does.
func Messages[T any, M interface {
	*T
	proto.Message
}, V any](all []V) []M {
	var messages []M
	for _, v := range all {
		messages = append(messages, Message[T, M](v))
	}
	return messages
}

// fieldNamed returns the field of a struct, or of a struct embedded in it, that has the name in JSON.
func fieldNamed(v reflect.Value, name protoreflect.Name) (field reflect.Value, ok bool) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == string(name) || tag == "" && strings.EqualFold(f.Name, strings.ReplaceAll(string(name), "_", "")) {
			return v.FieldByIndex(f.Index), true
		}
	}
	return reflect.Value{}, false
}

func encodeMessage(m protoreflect.Message, v reflect.Value) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		value, ok := fieldNamed(v, field.Name())
		if !ok || value.IsZero() {
			continue
		}
		if t, ok := value.Interface().(time.Time); ok && TimeMessage(t) == nil {
			continue
		}
		switch {
		case field.IsMap():
			all := m.Mutable(field).Map()
			for entry := value.MapRange(); entry.Next(); {
				key := protoreflect.ValueOf(entry.Key().String()).MapKey()
				all.Set(key, encode(field.MapValue(), entry.Value(), all.NewValue))
			}
		case field.IsList():
			all := m.Mutable(field).List()
			for i := range value.Len() {
				all.Append(encode(field, value.Index(i), all.NewElement))
			}
		default:
			m.Set(field, encode(field, value, func() protoreflect.Value { return m.NewField(field) }))
		}
	}
}

// encode returns a value as a protobuf value; empty creates a message for it.
func encode(field protoreflect.FieldDescriptor, v reflect.Value, empty func() protoreflect.Value) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.MessageKind:
		switch content := v.Interface().(type) {
		case time.Time:
			return protoreflect.ValueOfMessage(timestamppb.New(content).ProtoReflect())
		case session.Duration:
			return protoreflect.ValueOfMessage(durationpb.New(time.Duration(content)).ProtoReflect())
		}
		m := empty()
		encodeMessage(m.Message(), v)
		return m
	case protoreflect.StringKind:
		if text, ok := v.Interface().(fmt.Stringer); ok {
			return protoreflect.ValueOfString(text.String())
		}
		return protoreflect.ValueOfString(strings.ToValidUTF8(v.String(), "?"))
	case protoreflect.Uint32Kind:
		if v.CanInt() {
			return protoreflect.ValueOfUint32(uint32(max(v.Int(), 0)))
		}
		return protoreflect.ValueOfUint32(uint32(v.Uint()))
	}
	return protoreflect.ValueOf(v.Interface())
}

// decoder converts messages into structs and collects problems with values that the fields cannot hold.
type decoder struct{ problems []session.Problem }

func (d *decoder) message(path string, m protoreflect.Message, v reflect.Value) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		into, ok := fieldNamed(v, field.Name())
		if !ok {
			return true
		}
		at := strings.TrimPrefix(path+"."+string(field.Name()), ".")
		switch {
		case field.IsMap():
			into.Set(reflect.MakeMap(into.Type()))
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				element := reflect.New(into.Type().Elem()).Elem()
				d.value(fmt.Sprintf("%s[%s]", at, key), value, element)
				into.SetMapIndex(reflect.ValueOf(key.String()), element)
				return true
			})
		case field.IsList():
			into.Set(reflect.MakeSlice(into.Type(), value.List().Len(), value.List().Len()))
			for i := range value.List().Len() {
				d.value(fmt.Sprintf("%s[%d]", at, i), value.List().Get(i), into.Index(i))
			}
		default:
			d.value(at, value, into)
		}
		return true
	})
}

func (d *decoder) value(at string, value protoreflect.Value, into reflect.Value) {
	var err error
	content := value.Interface()
	if m, ok := content.(protoreflect.Message); ok {
		content = m.Interface()
	}
	switch content := content.(type) {
	case *timestamppb.Timestamp:
		var t time.Time
		t, err = TimeOf(content)
		into.Set(reflect.ValueOf(t))
	case *durationpb.Duration:
		var length time.Duration
		length, err = DurationOf(content)
		into.SetInt(int64(length))
	case proto.Message:
		d.message(at, content.ProtoReflect(), into)
	case string:
		if text, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
			err = text.UnmarshalText([]byte(content))
		} else {
			into.SetString(content)
		}
	default:
		into.Set(reflect.ValueOf(content).Convert(into.Type()))
	}
	if err != nil {
		d.problems = append(d.problems, session.Problem{Field: at, Message: err.Error()})
	}
}

// TimeMessage returns nil for the zero time, and for a time that JSON cannot hold: a host with a wrong clock must
// not make the whole response fail.
func TimeMessage(t time.Time) *timestamppb.Timestamp {
	message := timestamppb.New(t)
	if t.IsZero() || !message.IsValid() {
		return nil
	}
	return message
}

// TimeOf returns the zero time for nil. A time outside the years 1 to 9999 is an error.
func TimeOf(m *timestamppb.Timestamp) (time.Time, error) {
	if m == nil {
		return time.Time{}, nil
	}
	if err := m.CheckValid(); err != nil {
		return time.Time{}, fmt.Errorf("time %ds %dns: out of range", m.GetSeconds(), m.GetNanos())
	}
	return m.AsTime(), nil
}

// DurationMessage returns nil for the zero duration.
func DurationMessage(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// DurationOf returns zero for nil. A duration that time.Duration cannot hold (292 years) is an error.
func DurationOf(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	d := m.AsDuration() // saturates at the extremes of time.Duration
	if m.CheckValid() != nil || durationpb.New(d).Seconds != m.GetSeconds() {
		return 0, fmt.Errorf("duration %ds %dns: out of range", m.GetSeconds(), m.GetNanos())
	}
	return d, nil
}
