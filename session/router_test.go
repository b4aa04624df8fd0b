package session

import (
	"slices"
	"testing"
	"time"
)

func TestRouters(t *testing.T) {
	spec := good()
	spec.Routers = []string{"h3", "role=none"}
	names, warnings, faults := Routers(spec, lab())
	if !slices.Equal(names, []string{"h3"}) || len(warnings) != 2 || len(faults) != 0 {
		t.Errorf("got %v, warnings %v, faults %v", names, warnings, faults)
	}
	spec.Routers = []string{"stranger"}
	if _, _, faults = Routers(spec, lab()); len(faults) != 1 || faults[0].Field != "routers[0]" {
		t.Errorf("faults %v", faults)
	}
	spec.Routers = []string{"h3"}
	plan := planOf(t, spec, lab())
	var actions []Action
	for _, step := range append(plan.Steps, plan.Stop()...) {
		actions = append(actions, step.Action)
	}
	want := []Action{StartDestination, StartRouter, StartSource, StopSource, StopRouter, StopDestination}
	if !slices.Equal(actions, want) {
		t.Errorf("steps %v, want %v", actions, want)
	}
}

// TestProfile: marks hide protocol and ports from a router, and one program has one
// filter.
func TestProfile(t *testing.T) {
	for _, row := range []struct {
		name    string
		filters []string
		want    string
	}{
		{"no filter", nil, ""},
		{"addresses", []string{"dst=10.0.0.0/8 src=10.1.0.1"}, "dst=10.0.0.0/8 src=10.1.0.1"},
		{"with ports", []string{"proto=tcp dport=443 dst=10.0.0.0/8"}, "dst=10.0.0.0/8"},
		{"ports alone", []string{"proto=tcp dport=443"}, ""},
		{"two", []string{"dst=10.0.0.1", "dst=10.0.0.2"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.Filters, spec.Interval = parseFilters(row.filters...), Duration(100*time.Millisecond)
			want := RouterTask{Session: "web", Interval: Duration(time.Second), Lease: DefaultLease}
			if row.want != "" {
				want.Filter = parseFilters(row.want)[0]
			}
			if got := Profile(spec); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}
