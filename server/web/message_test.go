package web

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/measure/point"
	"pillion.dev/server/control"
	"pillion.dev/server/topology"
	"pillion.dev/session"
)

// unshared lists the fields that api.Message leaves out, because only the message or only the struct has them.
func unshared(m protoreflect.MessageDescriptor, of reflect.Type, seen map[reflect.Type]bool) (all []string) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Map || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() || seen[of] {
		return nil
	}
	seen[of] = true
	inMessage := map[protoreflect.Name]bool{}
	for _, f := range reflect.VisibleFields(of) {
		if !f.IsExported() || f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		var field protoreflect.FieldDescriptor
		for i := range m.Fields().Len() {
			n := m.Fields().Get(i).Name()
			if name == string(n) || name == "" && strings.EqualFold(f.Name, strings.ReplaceAll(string(n), "_", "")) {
				field = m.Fields().Get(i)
			}
		}
		if field == nil {
			all = append(all, of.Name()+"."+f.Name)
			continue
		}
		inMessage[field.Name()] = true
		inner := field.Message()
		if field.IsMap() {
			inner = field.MapValue().Message()
		}
		if inner != nil && inner.ParentFile().Package() == m.ParentFile().Package() {
			all = append(all, unshared(inner, f.Type, seen)...)
		}
	}
	for i := range m.Fields().Len() {
		if n := m.Fields().Get(i).Name(); !inMessage[n] {
			all = append(all, string(m.Name())+" "+string(n))
		}
	}
	return all
}

// TestConversionsLeaveNothingOut but what is listed here: a field that is added to one side only fails.
func TestConversionsLeaveNothingOut(t *testing.T) {
	for _, test := range []struct {
		message proto.Message
		of      any
		want    []string
	}{
		{&pillionv1.Agent{}, control.Agent{}, []string{
			"Agent.Boot", "Agent.IOAMID", "Clock.StepNs", "Clock.Steps", "Interface.Loopback", "Spool.Damaged", "Spool.DiskError",
			"Task.Missing", "Task.OtherFlows", "Task.Unanswered", // for sessions, events and the topology
		}},
		{&pillionv1.Session{}, control.Session{}, []string{"Session.Reasons", "Task.Missing", "Task.OtherFlows", "Task.Unanswered"}},
		{&pillionv1.Run{}, control.Run{}, []string{"Run.Due"}},
		{&pillionv1.PlanSessionResponse{}, control.Plan{}, nil},
		{&pillionv1.Problem{}, session.Problem{}, nil},
		{&pillionv1.Check{}, session.Check{}, nil},
		{&pillionv1.Point{}, point.Descriptor{}, []string{
			"Descriptor.Action", "Descriptor.Check", "Descriptor.Match", "Descriptor.MinInterval", "Descriptor.Schemas", "Point streams", // ListPoints sets the streams
			"PointOption group", "PointOption help", "PointOption label", "PointOption only", "PointOption title", "PointOption words", // of settings
		}},
		{&pillionv1.PointOption{}, session.Setting{}, []string{"Setting.ByHand", "Setting.Field", "Setting.OneMark", "Setting.Open", "Setting.ServerOnly"}},
		{&pillionv1.OneWay{}, topology.OneWay{}, nil},
		{&pillionv1.Path{}, topology.Path{}, nil},
	} {
		m := test.message.ProtoReflect().Descriptor()
		t.Run(string(m.Name()), func(t *testing.T) {
			got := unshared(m, reflect.TypeOf(test.of), map[reflect.Type]bool{})
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("only one side has %q, want %q", got, test.want)
			}
		})
	}
}
