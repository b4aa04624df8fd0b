package web

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"pillion.dev/api/pillionv1"
	"pillion.dev/server/dnsname"
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

// TestNamesOfRouters: routers have names by reverse DNS once name servers have answered; hosts have none, nor anybody within a scope.
func TestNamesOfRouters(t *testing.T) {
	_, option := scopedToken("scoped-viewer", "a:b")
	s := newSite(t, option, func(o *Options) {
		o.Names = dnsname.New(t.Context(), func(_ context.Context, address string) ([]string, error) {
			return []string{"name-of-" + address + ".example."}, nil
		})
	})
	graph := func() string {
		_, body := s.post(t, "http1", "/pillion.v1.TopologyService/GetTopology", "operator", `{}`)
		return body
	}
	eventually(t, "the router has its name", func() bool { return strings.Contains(graph(), `"name":"name-of-192.0.2.9.example"`) })
	if body := graph(); strings.Count(body, "name-of-") != 1 {
		t.Errorf("others have names: %s", body)
	}
	if _, body := s.post(t, "http1", "/pillion.v1.TopologyService/GetTopology", "scoped", `{}`); strings.Contains(body, "name-of-") || !strings.Contains(body, "192.0.2.9") {
		t.Errorf("within a scope: %s", body)
	}
}

// TestTraceTargets: an agent traces to addresses of the other one only, whatever a request names.
func TestTraceTargets(t *testing.T) {
	p := &paths{control: &fakeControl{}}
	for _, row := range []struct{ name, destination, address, want, refused string }{
		{"each family", "a", "", "[192.0.2.2 2001:db8::2]", ""},
		{"an address of the agent", "a", "192.0.2.3", "[192.0.2.3]", ""},
		{"another address", "a", "192.0.2.77", "", "trace to a: 192.0.2.77 is none of the addresses that only this agent has"},
		{"loopback", "a", "127.0.0.1", "", "127.0.0.1 is none"},
		{"loopback by IPv6", "a", "::1", "", "::1 is none"},
		{"another form of an address", "a", "2001:db8:0:0::2", "[2001:db8::2]", ""},
		{"no agent", "x", "192.0.2.1", "", "not found"},
		{"no address", "a", "north", "", `read address "north"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			found, err := p.targets(&pillionv1.TraceRequest{Destination: row.destination, Address: row.address})
			if row.refused == "" && (err != nil || fmt.Sprint(found) != row.want) || row.refused != "" && (err == nil || !strings.Contains(err.Error(), row.refused)) {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}
