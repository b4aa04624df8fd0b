package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func divided() Spec {
	return Spec{Name: "divided", Sources: []string{"h1"}, Destinations: []string{"h2"}, Waypoints: []string{"r"}}
}

// withWaypoint is the lab with one more agent.
func withWaypoint() []Host {
	return append(lab(), Host{Name: "r", Connected: true, Labels: map[string]string{"role": "edge"}, Capabilities: Capabilities()})
}

func TestWaypointsAreValidated(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(*Spec)
		problem string
	}{
		{"one", func(*Spec) {}, ""},
		{"label", func(s *Spec) { s.Waypoints = []string{"role=edge"} }, ""},
		{"own encodings", func(s *Spec) { s.Encoding = "native,ipip" }, ""},
		{"option of a transport", func(s *Spec) { s.Encoding = "native,udp-option" }, "encoding: marks in udp-option have no room for the time of a waypoint: use native,shim,ipip,udp"},
		{"standard", func(s *Spec) { s.Encoding = "ioam-e2e" }, "encoding: marks in ioam-e2e have no room"},
		{"without delay", func(s *Spec) { s.Modules = []string{"loss"} }, "waypoints: waypoints divide one-way delay: add the module delay"},
		{"a source", func(s *Spec) { s.Waypoints = []string{"r", "h1"} }, "waypoints[1]: h1 is a source or a destination of the session"},
		{"no name", func(s *Spec) { s.Waypoints = []string{"R!"} }, `waypoints[0]: "R!" is not an agent name`},
		{"twice", func(s *Spec) { s.Waypoints = []string{"r", "r"} }, `waypoints[1]: duplicate "r"`},
		{"segments without a waypoint", func(s *Spec) { s.Waypoints, s.Modules = nil, []string{"delay", "segments"} }, "waypoints: the module segments measures up to an agent on the path"},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := divided()
			row.change(&spec)
			problems := spec.Validate()
			if row.problem == "" && len(problems) > 0 || row.problem != "" && len(problems) == 0 {
				t.Fatalf("got %v, want %q", problems, row.problem)
			}
			if row.problem != "" && !slices.ContainsFunc(problems, func(p Problem) bool { return strings.HasPrefix(p.String(), row.problem) }) {
				t.Errorf("got %v, want %q", problems, row.problem)
			}
		})
	}
	complete := divided().Complete()
	if complete.Encoding != "native,udp" || !slices.Equal(complete.Modules, []string{"delay", "loss", "segments"}) {
		t.Errorf("completed to %s, %v", complete.Encoding, complete.Modules)
	}
}

// TestWaypointsPlan: a waypoint writes into marks of packets from the sources to the destinations, or the
// hosts behind them; sources need not know of it.
func TestWaypointsPlan(t *testing.T) {
	spec := divided()
	spec.Sources, spec.Both = []string{"h1", "h3"}, true
	spec.Transit = map[string]string{"h3": "10.3.0.0/16"}
	plan := planOf(t, spec, withWaypoint())
	r := plan.Assignments["r"]
	if len(r.Sources)+len(r.Points) != 0 || len(r.Destinations) != 1 {
		t.Fatalf("r has %+v", r)
	}
	task := r.Destinations[0]
	if want := []string{"10.0.0.1/32", "10.0.0.2/32", "10.3.0.0/16", "2001:db8::1/128"}; !slices.Equal(task.Amends, want) || task.Authenticated || task.Modules != nil {
		t.Errorf("r writes into marks to %v, want %v: %+v", task.Amends, want, task)
	}
	var from []string
	for _, peer := range task.Peers {
		from = append(from, peer.Agent)
	}
	if !slices.Equal(from, []string{"h1", "h2", "h3"}) || !slices.Equal(task.Peers[2].Prefixes, []string{"10.3.0.0/16"}) {
		t.Errorf("of peers %+v", task.Peers)
	}
	source, destination := plan.Assignments["h1"].Sources[0], plan.Assignments["h2"].Destinations[0]
	if slices.Contains(source.Modules, "segments") || !slices.Equal(destination.Modules, []string{"segments"}) {
		t.Errorf("h1 marks %v, h2 reads %v", source.Modules, destination.Modules)
	}
	if !slices.Equal(destination.DividedBy, []string{"r"}) || task.DividedBy != nil {
		t.Errorf("h2 reads times of %v, r of %v", destination.DividedBy, task.DividedBy)
	}
	want := "write the time of arrival into marks of packets from h1, h2, hosts behind h3 that it forwards to 10.0.0.1/32 and 10.0.0.2/32 and 10.3.0.0/16 and 2001:db8::1/128"
	if i := slices.IndexFunc(plan.Steps, func(s Step) bool { return s.Agent == "r" }); i < 0 || plan.Steps[i].Description != want {
		t.Errorf("steps %v, want %q", plan.Steps, want)
	}
	if len(plan.Warnings) != 0 && strings.Contains(strings.Join(plan.Warnings, " "), "waypoint") {
		t.Errorf("warnings %q", plan.Warnings)
	}
}

// TestWaypointsOfPairs: an agent of a pair is no waypoint.
func TestWaypointsOfPairs(t *testing.T) {
	spec := divided()
	spec.Sources = []string{"edge"} // a label of h1
	spec.Waypoints = []string{"h1", "r"}
	plan := planOf(t, spec, withWaypoint())
	if len(plan.Assignments["h1"].Destinations) != 0 || len(plan.Assignments["r"].Destinations) != 1 ||
		!slices.Contains(plan.Warnings, "waypoints: h1 is a source or a destination of the session: it writes no times into the marks of others") {
		t.Errorf("h1 has %+v, warnings %q", plan.Assignments["h1"], plan.Warnings)
	}
	spec.Waypoints = []string{"role=edge"}
	if plan = planOf(t, spec, lab()); !slices.Contains(plan.Warnings, "waypoints: no agent on the paths matches yet: delays are not divided") {
		t.Errorf("warnings %q", plan.Warnings)
	}
}

// TestWaypointsConflict: the first waypoint on a path divides its delay, so sessions that mark the same
// packets cannot have different ones.
func TestWaypointsConflict(t *testing.T) {
	waypoints := func(names ...string) SourceTask {
		return task(strings.Join(append(names, "x"), "-"), func(t *SourceTask) { t.Waypoints = names })
	}
	apart := waypoints("s")
	apart.Peers = []Peer{{Agent: "c", Addresses: []string{"10.0.0.3"}}}
	for _, row := range []struct {
		name  string
		other SourceTask
		words string
	}{
		{"none", waypoints(), ""},
		{"the same", waypoints("r"), ""},
		{"another", waypoints("s"), "different waypoints for the same packets (existing: s, rule"},
		{"other packets", apart, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := Fits([]SourceTask{row.other}, waypoints("r"))
			if row.words == "" && err != nil || row.words != "" && (err == nil || !strings.Contains(err.Error(), row.words)) {
				t.Errorf("got %v, want %q", err, row.words)
			}
		})
	}
	many := DestinationTask{Session: "many"}
	for i := range RulesMax + 1 {
		many.Amends = append(many.Amends, fmt.Sprintf("10.0.%d.0/24", i))
	}
	if err := fitsReading(nil, many); err == nil || !strings.Contains(err.Error(), "65 addresses and prefixes; a waypoint supports 64") {
		t.Errorf("too many destinations: %v", err)
	}
}
