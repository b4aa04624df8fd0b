package api

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/session"
)

// fill sets every field to a different value, so that the test notices a field that a
// conversion lacks.
func fill(t *testing.T, v reflect.Value, next *int64) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", int(*next)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(*next)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*next))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), next)
		fill(t, v.Index(1), next)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, next)
		fill(t, value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		switch content := v.Addr().Interface().(type) {
		case *time.Time:
			*content = time.Unix(*next, *next).UTC()
			return
		case encoding.TextUnmarshaler: // a filter
			if err := content.UnmarshalText(fmt.Appendf(nil, "dport=%d", *next)); err != nil {
				t.Fatal(err)
			}
			return
		}
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	default:
		t.Fatalf("fill %v: no value for it", v.Type())
	}
}

func filled[T any](t *testing.T) T {
	t.Helper()
	var value T
	next := int64(0)
	fill(t, reflect.ValueOf(&value).Elem(), &next)
	return value
}

func TestSpecRoundTrip(t *testing.T) {
	tests := []struct {
		name string
		spec session.Spec
	}{
		{"empty", session.Spec{}},
		{"every field", filled[session.Spec](t)},
		{"no traces", session.Spec{Trace: session.Duration(-time.Second)}},
		{"one agent marks all", session.Spec{SamplingFor: map[string]session.Sampling{"a": {}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text, err := protojson.Marshal(SpecMessage(test.spec))
			if err != nil {
				t.Fatal(err)
			}
			var message pillionv1.SessionSpec
			if err := protojson.Unmarshal(text, &message); err != nil {
				t.Fatal(err)
			}
			got, problems := SpecOf(&message)
			if len(problems) > 0 || !reflect.DeepEqual(got, test.spec) {
				t.Errorf("got %+v, %v; want %+v", got, problems, test.spec)
			}
		})
	}
}

func TestSpecOfRefuses(t *testing.T) {
	tests := []struct {
		name, want string
		message    *pillionv1.SessionSpec
	}{
		{"long interval", "interval: duration", &pillionv1.SessionSpec{Interval: &durationpb.Duration{Seconds: math.MaxInt64}}},
		{"mixed signs", "lease: duration", &pillionv1.SessionSpec{Lease: &durationpb.Duration{Seconds: 1, Nanos: -1}}},
		{"gap of one agent", "sampling_for[a].min_gap: duration", &pillionv1.SessionSpec{
			SamplingFor: map[string]*pillionv1.Sampling{"a": {MinGap: &durationpb.Duration{Nanos: math.MaxInt32}}}}},
		{"invalid filter", "filters[1]: read filter", &pillionv1.SessionSpec{Filters: []string{"proto=tcp", "dport=0"}}},
		{"start before the common era", "start: time", &pillionv1.SessionSpec{Start: &timestamppb.Timestamp{Seconds: math.MinInt64}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, problems := SpecOf(test.message); len(problems) != 1 || !strings.Contains(problems[0].String(), test.want) {
				t.Errorf("got %v, want %q", problems, test.want)
			}
		})
	}
}

// TestMessagesAreComplete: a filled value gives a message without an unset field.
func TestMessagesAreComplete(t *testing.T) {
	tests := []struct {
		name    string
		message proto.Message
	}{
		{"interface", Message[pillionv1.Interface](filled[session.Interface](t))},
		{"clock", Message[pillionv1.Clock](filled[session.Clock](t))},
		{"spool", Message[pillionv1.Spool](filled[session.Spool](t))},
		{"spec", SpecMessage(filled[session.Spec](t))},
		{"task", Message[pillionv1.Task](struct {
			session.TaskState
			Agent string
		}{filled[session.TaskState](t), "a"})},
		{"check", Message[pillionv1.Check](filled[session.Check](t))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := test.message.ProtoReflect()
			for i := range m.Descriptor().Fields().Len() {
				if field := m.Descriptor().Fields().Get(i); !m.Has(field) {
					t.Errorf("%s is unset", field.FullName())
				}
			}
		})
	}
}

// TestOpenAPI: every method has a summary, every field a description.
func TestOpenAPI(t *testing.T) {
	var document struct {
		Paths       map[string]map[string]struct{ Summary string }
		Definitions map[string]struct {
			Properties map[string]struct{ Title, Description string }
		}
	}
	if err := json.Unmarshal(OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	for _, file := range []protoreflect.FileDescriptor{
		pillionv1.File_agent_proto, pillionv1.File_session_proto, pillionv1.File_data_proto, pillionv1.File_flow_proto,
		pillionv1.File_topology_proto, pillionv1.File_server_proto,
	} {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				path := "/" + string(service.FullName()) + "/" + string(service.Methods().Get(j).Name())
				if document.Paths[path]["post"].Summary == "" {
					t.Errorf("%s: no summary", path)
				}
			}
		}
		for i := range file.Messages().Len() {
			checkDocumented(t, file.Messages().Get(i), document.Definitions[string(file.Messages().Get(i).Name())].Properties)
		}
	}
}

func checkDocumented(t *testing.T, message protoreflect.MessageDescriptor, properties map[string]struct{ Title, Description string }) {
	t.Helper()
	for i := range message.Fields().Len() {
		field := message.Fields().Get(i)
		if p := properties[field.JSONName()]; p.Title == "" && p.Description == "" {
			t.Errorf("%s: no description", field.FullName())
		}
	}
}
