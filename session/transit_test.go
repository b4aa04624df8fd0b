package session

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pillion.dev/wire"
)

func TestTransitIsValidated(t *testing.T) {
	for _, row := range []struct {
		name     string
		transit  map[string]string
		change   func(*Spec)
		problems string // substrings, separated by |
	}{
		{"none", nil, nil, ""},
		{"one", map[string]string{"h1": "2001:db8:a::/48"}, nil, ""},
		{"several", map[string]string{"h1": "2001:db8:a::/48, 10.1.0.0/16", "h2": "10.2.0.0/16"}, nil, ""},
		{"a host", map[string]string{"h1": "10.1.0.1/32"}, nil, ""},
		{"address", map[string]string{"h1": "10.1.0.1"}, nil, `transit[h1]: "10.1.0.1" is not a prefix, such as 2001:db8:a::/48`},
		{"empty", map[string]string{"h1": ""}, nil, `"" is not a prefix`},
		{"everything", map[string]string{"h1": "::/0"}, nil, "::/0 contains all addresses"},
		{"host bits", map[string]string{"h1": "10.1.0.1/16"}, nil, "has bits beyond its length: write 10.1.0.0/16"},
		{"mapped", map[string]string{"h1": "::ffff:10.1.0.0/112"}, nil, "write an IPv4 prefix"},
		{"overlap", map[string]string{"h1": "10.0.0.0/8", "h2": "10.2.0.0/16"}, nil, "transit[h2]: 10.2.0.0/16 overlaps 10.0.0.0/8 of h1: a host can be behind one agent only"},
		{"overlap of one agent", map[string]string{"h1": "10.0.0.0/8,10.2.0.0/16"}, nil, "10.2.0.0/16 overlaps 10.0.0.0/8 of h1"},
		{"agent", map[string]string{"H!": "10.0.0.0/8"}, nil, `invalid agent name "H!"`},
		{"family", map[string]string{"h1": "10.0.0.0/8"}, func(s *Spec) { s.Family = "ipv6" }, "10.0.0.0/8: family ipv6 with encoding"},
		{"encoding", map[string]string{"h1": "2001:db8:a::/48"}, func(s *Spec) { s.Encoding, s.Family = "udp-option", "ipv4" }, "2001:db8:a::/48: family ipv4"},
		{"only for its own packets", map[string]string{"h1": "10.0.0.0/8"}, func(s *Spec) { s.Encoding = "udp-option" }, "does not mark packets that a host forwards: add one of shim"},
		{"sparse", map[string]string{"h1": "10.0.0.0/8"}, func(s *Spec) { s.SparseMarks = true }, "cannot be combined with sparse marks"},
		{"many", map[string]string{"h1": strings.TrimSuffix(strings.Repeat("10.0.0.0/8,", 17), ",")}, nil, "17 prefixes, limit 16"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := Spec{Name: "x", Sources: []string{"h1"}, Destinations: []string{"h2"}, Transit: row.transit}
			if row.change != nil {
				row.change(&spec)
			}
			problems := spec.Validate()
			if row.problems == "" && len(problems) > 0 || row.problems != "" && len(problems) == 0 {
				t.Fatalf("got %v, want %q", problems, row.problems)
			}
			for _, want := range strings.Split(row.problems, "|") {
				if want != "" && !slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.String(), want) }) {
					t.Errorf("got %v, want %q", problems, want)
				}
			}
		})
	}
}

// TestTransitPlan: an edge marks what it forwards from the hosts behind it, to those behind the
// other edge, and a host without transit takes part with its own packets.
func TestTransitPlan(t *testing.T) {
	spec := Spec{
		Name: "edges", Sources: []string{"h1"}, Destinations: []string{"h2", "h3"}, Both: true,
		Transit: map[string]string{"h1": "2001:db8:a::/48,10.1.0.0/16", "h2": "10.2.0.0/16"},
	}
	plan := planOf(t, spec, lab())
	h1 := plan.Assignments["h1"].Sources[0]
	if !slices.Equal(h1.Transit, []string{"2001:db8:a::/48", "10.1.0.0/16"}) || len(h1.Addresses) == 0 {
		t.Errorf("h1 marks %+v", h1)
	}
	if got := h1.Peers[0]; !reflect.DeepEqual(got, Peer{Agent: "h2", Addresses: []string{"10.0.0.2"}, Prefixes: []string{"10.2.0.0/16"}}) {
		t.Errorf("its peer is %+v", got)
	}
	if got := h1.Peers[1]; got.Agent != "h3" || got.Prefixes != nil || len(got.Addresses) == 0 {
		t.Errorf("its second peer is %+v", got)
	}
	if got := plan.Assignments["h2"].Destinations[0]; !slices.Equal(got.Transit, []string{"10.2.0.0/16"}) || !slices.Equal(got.Peers[0].Prefixes, []string{"2001:db8:a::/48", "10.1.0.0/16"}) {
		t.Errorf("h2 reads %+v", got)
	}
	if got := plan.Assignments["h3"].Destinations[0].Transit; got != nil {
		t.Errorf("h3 has %v behind it", got)
	}
	var steps []string
	for _, step := range plan.Steps {
		steps = append(steps, step.Agent+": "+step.Description)
	}
	for _, want := range []string{
		"h1: mark all packets that it forwards from 2001:db8:a::/48 and 10.1.0.0/16 to hosts behind h2, h3 while the marks are read there",
		"h2: read and remove marks of packets from hosts behind h1 that it forwards to 10.2.0.0/16",
	} {
		if !slices.Contains(steps, want) {
			t.Errorf("no %q in %q", want, steps)
		}
	}
	rules := h1.rules()
	want := parseFilters("src=10.1.0.0/16 dst=10.2.0.0/16")[0]
	if !slices.Contains(rules, want) {
		t.Errorf("no %v in %v", want, rules)
	}
}

// TestTransitWarnings: settings that have another effect than they seem to.
func TestTransitWarnings(t *testing.T) {
	spec := Spec{Name: "x", Sources: []string{"h1"}, Destinations: []string{"h2"}, Transit: map[string]string{"h1": "10.0.0.0/24", "h3": "10.3.0.0/16"}, Hops: HopsIOAM}
	got := strings.Join(planOf(t, spec, lab()).Warnings, "\n")
	for _, want := range []string{
		"transit[h1]: 10.0.0.0/24 contains 10.0.0.2 of h2, whose own packets are marked like packets of hosts behind h1",
		"transit[h3]: h3 is not part of the session",
		"hops: packets of hosts behind h1 have no room for the times of routers: their hops are not measured",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
}

// TestTransitOverlaps: packets of a host behind an edge are those of the edge's session, too.
func TestTransitOverlaps(t *testing.T) {
	task := func(own, transit, peer, behind string) *SourceTask {
		t := &SourceTask{Addresses: []string{own}, Peers: []Peer{{Agent: "x", Addresses: []string{peer}}}}
		if transit != "" {
			t.Transit = []string{transit}
		}
		if behind != "" {
			t.Peers[0].Prefixes = []string{behind}
		}
		return t
	}
	edge := task("10.0.0.1", "10.1.0.0/16", "10.0.0.2", "10.2.0.0/16")
	for _, row := range []struct {
		name  string
		other *SourceTask
		want  bool
	}{
		{"the same", edge, true},
		{"a part of both", task("10.0.0.1", "10.1.2.0/24", "10.0.0.2", "10.2.0.0/24"), true},
		{"larger on one side", task("10.0.0.1", "10.0.0.0/8", "10.0.0.2", "10.2.0.0/24"), true},
		{"its own packets", task("10.0.0.1", "", "10.0.0.2", ""), false},
		{"other hosts", task("10.0.0.1", "10.9.0.0/16", "10.0.0.2", "10.2.0.0/16"), false},
		{"a host as peer", task("10.0.0.1", "10.1.0.0/16", "10.2.0.7", ""), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, pair := range [][2]*SourceTask{{edge, row.other}, {row.other, edge}} {
				if _, _, got := overlap(*pair[0], *pair[1]); got != row.want {
					t.Errorf("overlap is %v", got)
				}
			}
		})
	}
}

// TestRestrictLeavesThePlan: what an agent cannot do is removed from its own tasks, not from the
// lists of the plan that they were copied from.
func TestRestrictLeavesThePlan(t *testing.T) {
	plan := Assignment{
		Sources:      []SourceTask{{Session: "web", Encoding: "native,udp", Modules: []string{"delay", "loss"}, Marking: wire.Marking{Block: 1}}},
		Destinations: []DestinationTask{{Session: "web", Modules: []string{"segments"}, Block: 1}},
		Points:       []PointTask{{Session: "web", Point: "clock"}},
	}
	tasks := plan
	Restrict(&tasks, "h1", []Host{{Name: "h1", Capabilities: []string{"udp", "loss"}}})
	want := Assignment{
		Sources:      []SourceTask{{Session: "web", Encoding: "udp", Modules: []string{"loss"}}},
		Destinations: []DestinationTask{{Session: "web", Modules: []string{}}}, Points: []PointTask{},
	}
	if !reflect.DeepEqual(tasks, want) {
		t.Errorf("the agent gets %+v, want %+v", tasks, want)
	}
	if plan.Sources[0].Encoding != "native,udp" || len(plan.Sources[0].Modules) != 2 || plan.Sources[0].Block != 1 ||
		len(plan.Destinations[0].Modules) != 1 || plan.Destinations[0].Block != 1 || len(plan.Points) != 1 {
		t.Errorf("the plan became %+v", plan)
	}
}
