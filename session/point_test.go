package session

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/point"
	"pillion.dev/wire/fivetuple"
)

// Points of each placement, for these tests only.
func init() {
	schema := &measure.Schema{Name: "test_rows", Doc: "rows of a test", Fields: []measure.Field{measure.TimeField}}
	for placement, match := range map[point.Placement]point.Match{
		point.OnSources: point.MatchFlows, point.OnDestinations: point.MatchNothing, point.OnPairs: point.MatchNothing,
	} {
		schema := *schema
		schema.Name += "_" + string(placement)
		point.Register(point.Descriptor{
			Name: "test_" + string(placement), Doc: "a test", Action: "test", Cost: "a row each {interval}",
			Schemas: []*measure.Schema{&schema}, Placement: placement, Match: match,
			Options: []point.Option{
				{Name: "every", Type: point.Duration, Default: "10s", Min: "1s", Max: "1h", Doc: "how often"},
				{Name: "count", Type: point.Integer, Default: "3", Min: "1", Doc: "how many"},
			},
		})
	}
}

func TestResolvePoints(t *testing.T) {
	spec := good()
	spec.Routers = []string{"h3", "role=none"}
	warnings, faults := ResolvePoints(spec, lab())
	if len(warnings) != 2 || len(faults) != 0 {
		t.Errorf("warnings %v, faults %v", warnings, faults)
	}
	spec.Routers, spec.Points = []string{"unknown"}, []PointRequest{{Name: "router", Agents: []string{"h3", "other"}}}
	if _, faults = ResolvePoints(spec, lab()); len(faults) != 2 || faults[0].Field != "routers[0]" || faults[1].Field != "points[0].agents[1]" {
		t.Errorf("faults %v", faults)
	}
}

func TestStepsOfPoints(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"routers": func(s *Spec) { s.Routers = []string{"h3"} },
		"points":  func(s *Spec) { s.Points = []PointRequest{{Name: "router", Agents: []string{"h3"}}} },
	} {
		t.Run(name, func(t *testing.T) {
			spec := good()
			change(&spec)
			plan := planOf(t, spec, lab())
			var actions []Action
			for _, step := range plan.Steps {
				actions = append(actions, step.Action)
			}
			want := []Action{StartDestination, "start-router", StartSource}
			if !slices.Equal(actions, want) {
				t.Errorf("steps %v, want %v", actions, want)
			}
		})
	}
}

// TestRouterTask: marks hide protocol and ports from a router, and one program has
// one filter.
func TestRouterTask(t *testing.T) {
	for _, row := range []struct {
		name    string
		filters []string
		want    []fivetuple.Filter
	}{
		{"no filter", nil, nil},
		{"addresses", []string{"dst=10.0.0.0/8 src=10.1.0.1"}, parseFilters("dst=10.0.0.0/8 src=10.1.0.1")},
		{"with ports", []string{"proto=tcp dport=443 dst=10.0.0.0/8"}, parseFilters("dst=10.0.0.0/8")},
		{"ports alone", []string{"proto=tcp dport=443"}, nil},
		{"two", []string{"dst=10.0.0.1", "dst=10.0.0.2"}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.Filters, spec.Interval = parseFilters(row.filters...), Duration(100*time.Millisecond)
			spec.Routers = []string{"h3"}
			want := []PointTask{{Session: "web", Point: "router", Filters: row.want, Options: map[string]string{"causes": "false", "packets": "false"}, Interval: Duration(time.Second), Lease: defaultDuration("lease")}}
			if got := planOf(t, spec, lab()).Assignments["h3"].Points; !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// TestPlacements: each point gets its tasks where it is placed, with the peers, the
// filters that it matches and all of its options.
func TestPlacements(t *testing.T) {
	spec := good()
	spec.Filters = parseFilters("proto=tcp")
	for _, placement := range []string{"sources", "destinations", "pairs"} {
		spec.Points = append(spec.Points, PointRequest{Name: "test_" + placement, Options: map[string]string{"count": "7"}})
	}
	assignments := planOf(t, spec, lab()).Assignments
	for agent, a := range assignments {
		var want []PointTask
		add := func(name string, peers []Peer, filters []fivetuple.Filter) {
			want = append(want, PointTask{
				Session: "web", Point: name, Peers: peers, Filters: filters, Interval: defaultDuration("interval"), Lease: defaultDuration("lease"),
				Options: point.Options{"every": "10s", "count": "7"},
			})
		}
		for _, source := range a.Sources {
			add("test_sources", source.Peers, spec.Filters)
		}
		for _, destination := range a.Destinations {
			add("test_destinations", destination.Peers, nil)
		}
		for _, source := range a.Sources {
			for i := range source.Peers {
				add("test_pairs", source.Peers[i:i+1], nil)
			}
		}
		if !reflect.DeepEqual(a.Points, want) {
			t.Errorf("%s: got %+v, want %+v", agent, a.Points, want)
		}
	}
	if len(assignments) < 2 {
		t.Errorf("assignments %+v", assignments)
	}
}

func TestValidatePoints(t *testing.T) {
	for _, row := range []struct {
		name    string
		request PointRequest
		field   string
	}{
		{"good", PointRequest{Name: "test_pairs", Options: map[string]string{"every": "1m"}}, ""},
		{"unknown", PointRequest{Name: "weather"}, "points[0].name"},
		{"no agents", PointRequest{Name: "router"}, "points[0].agents"},
		{"bad agents", PointRequest{Name: "router", Agents: []string{"-"}}, "points[0].agents[0]"},
		{"agents of pairs", PointRequest{Name: "test_pairs", Agents: []string{"h1"}}, "points[0].agents"},
		{"unknown option", PointRequest{Name: "test_pairs", Options: map[string]string{"color": "red"}}, "points[0].options[color]"},
		{"below", PointRequest{Name: "test_pairs", Options: map[string]string{"every": "10ms"}}, "points[0].options[every]"},
		{"above", PointRequest{Name: "test_pairs", Options: map[string]string{"every": "2h"}}, "points[0].options[every]"},
		{"no number", PointRequest{Name: "test_pairs", Options: map[string]string{"count": "x"}}, "points[0].options[count]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.Points = []PointRequest{row.request}
			problems := spec.Validate()
			if row.field == "" && len(problems) > 0 || row.field != "" && (len(problems) != 1 || problems[0].Field != row.field) {
				t.Errorf("got %v, want one at %q", problems, row.field)
			}
		})
	}
}

func TestParsePoint(t *testing.T) {
	for text, want := range map[string]PointRequest{
		"router":                    {Name: "router"},
		"router@r1,site=north":      {Name: "router", Agents: []string{"r1", "site=north"}},
		"dns:every=5s,name=a.b@*":   {Name: "dns", Options: map[string]string{"every": "5s", "name": "a.b"}, Agents: []string{"*"}},
		"ping:count=3,every=100ms":  {Name: "ping", Options: map[string]string{"count": "3", "every": "100ms"}},
		"http:url=http://a/?x=1@h1": {Name: "http", Options: map[string]string{"url": "http://a/?x=1"}, Agents: []string{"h1"}},
	} {
		got, err := ParsePoint(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if again, err := ParsePoint(got.String()); err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	if _, err := ParsePoint("dns:every"); err == nil {
		t.Error("an option without a value is accepted")
	}
}

func TestChosen(t *testing.T) {
	request := PointRequest{Name: "send", Options: point.Find("send").Complete(map[string]string{"count": "7", "gap": "2ms"})}
	if got := request.Chosen().String(); got != "send:count=7,gap=2ms" || len(request.Options) < 20 {
		t.Errorf("got %s of %v", got, request.Options)
	}
	unknown := PointRequest{Name: "unknown", Options: map[string]string{"a": "b"}}
	if got := unknown.Chosen().String(); got != "unknown:a=b" {
		t.Errorf("got %s", got)
	}
}

// TestOptionsOfPoints: options are checked one by one, and then together.
func TestOptionsOfPoints(t *testing.T) {
	for name, row := range map[string]struct {
		point string
		want  []string
	}{
		"valid":            {"send:count=100,pattern=train", nil},
		"model":            {"send:pattern=model,model=interval=uniform(20ms,30ms) size=constant(100B),dscp=46", nil},
		"one by one":       {"send:count=0,gap=x", []string{"points[0].options[count]", "points[0].options[gap]"}},
		"together":         {"send:count=300", []string{"points[0].options"}},
		"missing":          {"send:pattern=rate", []string{"points[0].options"}},
		"agents of a pair": {"send@h1", []string{"points[0].agents"}},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := ParsePoint(row.point)
			if err != nil || !strings.Contains(row.point, "(") && request.String() != row.point {
				t.Fatalf("%v, %v", request, err)
			}
			spec := good()
			spec.Points = []PointRequest{request}
			var fields []string
			for _, problem := range spec.Validate() {
				fields = append(fields, problem.Field)
			}
			if !slices.Equal(fields, row.want) {
				t.Errorf("got %v, want %v: %v", fields, row.want, spec.Validate())
			}
		})
	}
}
