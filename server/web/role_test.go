package web

import (
	"encoding/json"
	"regexp"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"pillion.dev/api"
)

// TestRolesMatchTheDocumentation: every procedure requires the role that its comment
// names.
func TestRolesMatchTheDocumentation(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct{ Summary, Description string }
	}
	if err := json.Unmarshal(api.OpenAPI, &document); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`Role: (\w+)\.`)
	procedures := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("pillion.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
				procedures++
				needed, known := roles[procedure]
				if !known {
					t.Errorf("%s: no role", procedure)
				}
				want := anyone.String()
				words := document.Paths[procedure]["post"]
				if match := named.FindStringSubmatch(words.Summary + words.Description); match != nil {
					want = match[1]
				}
				if needed.String() != want {
					t.Errorf("%s: requires %v, its comment says %s", procedure, needed, want)
				}
				reads := method.Options().(*descriptorpb.MethodOptions).GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
				if reads && audited(procedure) {
					t.Errorf("%s: only reads, but is audited", procedure)
				}
				if !reads && needed >= operator && !audited(procedure) {
					t.Errorf("%s: changes something, but is not audited", procedure)
				}
				if method.IsStreamingClient() || method.IsStreamingServer() && needed > viewer {
					t.Errorf("%s: a stream that changes something is not audited", procedure)
				}
			}
		}
		return true
	})
	if procedures != len(roles) {
		t.Errorf("%d procedures, %d roles", procedures, len(roles))
	}
}

func TestParseRole(t *testing.T) {
	tests := []struct {
		name, text string
		want       role
		ok         bool
	}{
		{"viewer", "viewer", viewer, true},
		{"operator", "operator", operator, true},
		{"admin", "admin", admin, true},
		{"host", "join", 0, false},
		{"anyone is no role", "anyone", 0, false},
		{"nothing", "", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got, ok := parseRole(test.text); got != test.want || ok != test.ok {
				t.Errorf("got %v, %v; want %v, %v", got, ok, test.want, test.ok)
			}
		})
	}
}
