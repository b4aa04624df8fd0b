package web

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"pillion.dev/server/topology"
)

// TestPathMessageIsComplete: a filled path, with its hops and their stages, gives messages
// without an unset field.
func TestPathMessageIsComplete(t *testing.T) {
	var path topology.Path
	fillAll(reflect.ValueOf(&path).Elem())
	isComplete(t, pathMessage(path).ProtoReflect())
}

func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0))
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			*at = epoch
			return
		}
		for i := range v.NumField() {
			fillAll(v.Field(i))
		}
	}
}

func isComplete(t *testing.T, m protoreflect.Message) {
	t.Helper()
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case !m.Has(field):
			t.Errorf("%s is unset", field.FullName())
		case field.IsList() && field.Message() != nil:
			isComplete(t, m.Get(field).List().Get(0).Message())
		case field.Message() != nil:
			isComplete(t, m.Get(field).Message())
		}
	}
}
