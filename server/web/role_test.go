package web

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/archive"
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
				rule, known := roles[procedure]
				needed := rule.role
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
				if method.IsStreamingClient() || method.IsStreamingServer() && needed > analyst {
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
		{"analyst", "analyst", analyst, true},
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

// TestViewersReadAndNothingElse lists what a viewer may call. A new procedure fails it until
// it is listed here or requires more.
func TestViewersReadAndNothingElse(t *testing.T) {
	reads := map[string][]string{
		"AgentService":    {"ListAgents", "GetAgent"},
		"AlarmService":    {"ListAlarms", "ListAlarmRules", "ListSilences"},
		"SessionService":  {"PlanSession", "ListSessions", "GetSession", "ListRuns", "ListPoints", "ExplainPair"},
		"DataService":     {"ListStreams", "Tail", "Series", "ListRows", "Export"},
		"FlowService":     {"Windows", "WatchWindows", "WatchPairs", "ListFlows", "PairClocks", "SiteMatrix", "TrafficMatrix", "ServiceLevels"},
		"TopologyService": {"GetTopology", "GetPathChange", "GetRouterDelays"},
		"ServerService":   {"WhoAmI", "ListEvents", "Health", "BuildInfo"},
		"EnrolService":    {"Enrol", "Renew", "Standing"}, // of hosts, authenticated otherwise
	}
	permitted := 0
	for procedure, rule := range roles {
		service, method, _ := strings.Cut(strings.TrimPrefix(procedure, "/pillion.v1."), "/")
		want := slices.Contains(reads[service], method)
		if got := permit(caller{role: viewer}, rule) == nil; got != want {
			t.Errorf("%s: a viewer may call it: %v, want %v", procedure, got, want)
		}
		if want {
			permitted++
		}
	}
	for _, methods := range reads {
		permitted -= len(methods)
	}
	if permitted != 0 {
		t.Errorf("%d procedures of the list are not served", -permitted)
	}
}

// TestViewersRunSQL: a viewer cannot; an analyst can, and nothing more than a viewer.
func TestViewersRunSQL(t *testing.T) {
	for procedure, rule := range roles {
		needed := rule.role
		sql := procedure == pillionv1connect.DataServiceQueryProcedure
		if may := permit(caller{role: analyst}, rule) == nil; may != (needed <= viewer || sql) {
			t.Errorf("%s: an analyst may call it: %v", procedure, may)
		}
	}
	s := newSite(t)
	for token, code := range map[string]connect.Code{"viewer": connect.CodePermissionDenied, "analyst": 0, "operator": 0} {
		stream, err := s.rows(t, token).Query(t.Context(), &pillionv1.QueryRequest{Sql: "SELECT 1"})
		if err != nil {
			t.Fatal(err)
		}
		for stream.Receive() {
		}
		if err := stream.Err(); (err == nil) != (code == 0) || err != nil && (connect.CodeOf(err) != code || !strings.Contains(err.Error(), "requires role analyst")) {
			t.Errorf("%s: %v", token, err)
		}
	}
}

// TestEveryProcedureDeclaresItsScoping: a new procedure fails it until its rule says what it does for a token with a scope, and
// is refused until then. What changes anything is refused.
func TestEveryProcedureDeclaresItsScoping(t *testing.T) {
	limited := caller{role: admin, scope: &archive.Scope{}}
	for procedure, rule := range roles {
		if rule.scoping == undeclared {
			t.Errorf("%s: declare what it does for a token with a scope", procedure)
		}
		if may := permit(limited, rule) == nil; may != (rule.scoping == within || rule.scoping == open) {
			t.Errorf("%s: permitted within a scope: %v", procedure, may)
		}
		if rule.role > analyst && rule.scoping != refused {
			t.Errorf("%s: only operators may call it, but it is not refused within a scope", procedure)
		}
	}
	if permit(limited, rule{viewer, here, undeclared}) == nil {
		t.Error("an undeclared procedure is permitted within a scope")
	}
}
