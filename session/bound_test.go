package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestBound: what exceeds a limit, or is invalid, is left out and counted; the rest of a report is
// kept, and an honest agent's report passes the limits unchanged.
func TestBound(t *testing.T) {
	long := strings.Repeat("x", TextMax+1)
	many := func(n int, format string) (texts []string) {
		for i := range n {
			texts = append(texts, fmt.Sprintf(format, i/250, i%250+1))
		}
		return texts
	}
	entries := func(n int) map[string]uint64 {
		all := map[string]uint64{}
		for i := range n {
			all[fmt.Sprint("c", i)] = 1
		}
		return all
	}
	labels := map[string]string{}
	for i := range labelsMax + 3 {
		labels[fmt.Sprintf("l%03d", i)] = "x"
	}
	for _, row := range []struct {
		name    string
		state   State
		omitted map[string]int
		check   func(s *State) bool // nil: unchanged
	}{
		{"nothing exceeds", State{Version: "1", Capabilities: []string{"a"}, Interfaces: []Interface{{Name: "e", Addresses: []string{"10.0.0.1/8"}}}, Tasks: []TaskState{{Session: "s", Counters: entries(3)}}}, nil, nil},
		{"one interface with many addresses", State{Interfaces: []Interface{{Name: "kube-ipvs0", Addresses: many(2000, "10.60.%d.%d/32")}}}, nil, nil},
		{"too many addresses: interfaces that are up come first", State{Interfaces: []Interface{
			{Name: "kube-ipvs0", Addresses: many(AddressesMax, "10.60.%d.%d/32")}, {Name: "e", Up: true, Addresses: []string{"10.0.0.1/8"}},
		}}, map[string]int{"addresses": 1}, func(s *State) bool {
			return s.Interfaces[0].Name == "e" && len(s.Interfaces[0].Addresses) == 1 && len(s.Interfaces[1].Addresses) == AddressesMax-1
		}},
		{"invalid address", State{Interfaces: []Interface{{Name: "e", Addresses: []string{"ten", "10.0.0.1/8"}}}}, map[string]int{"addresses": 1}, func(s *State) bool {
			return len(s.Interfaces[0].Addresses) == 1 && s.Interfaces[0].Addresses[0] == "10.0.0.1/8"
		}},
		{"interfaces: those with addresses first", State{Interfaces: append(make([]Interface, interfacesMax+1), Interface{Name: "e", Up: true, Addresses: []string{"10.0.0.1/8"}})},
			map[string]int{"interfaces": 2}, func(s *State) bool { return len(s.Interfaces) == interfacesMax && s.Interfaces[0].Name == "e" }},
		{"labels", State{Labels: labels}, map[string]int{"labels": 3}, func(s *State) bool { return len(s.Labels) == labelsMax && s.Labels["l000"] != "" }},
		{"invalid label", State{Labels: map[string]string{"a\nb": "", "c": "d"}}, map[string]int{"labels": 1}, func(s *State) bool { return len(s.Labels) == 1 }},
		{"capabilities", State{Capabilities: append(many(capabilitiesMax, "c%d-%d"), long)}, map[string]int{"capabilities": 1}, func(s *State) bool { return len(s.Capabilities) == capabilitiesMax }},
		{"long texts", State{Version: long, Kernel: long, Clock: Clock{By: long}}, nil, func(s *State) bool {
			return len(s.Version) == TextMax+3 && len(s.Kernel) == TextMax+3 && len(s.Clock.By) == TextMax+3
		}},
		{"tasks", State{Tasks: append([]TaskState{{Session: long}}, make([]TaskState, tasksMax+1)...)}, map[string]int{"tasks": 2}, func(s *State) bool { return len(s.Tasks) == tasksMax }},
		{"counters", State{Tasks: []TaskState{{Session: "s", Counters: entries(countersMax + 2)}}}, map[string]int{"counters of tasks": 2}, func(s *State) bool { return len(s.Tasks[0].Counters) == countersMax }},
		{"peers", State{Tasks: []TaskState{{Missing: []string{"a", long}, OtherFlows: map[string]string{"a": long}}}}, map[string]int{"peers of tasks": 2}, func(s *State) bool { return len(s.Tasks[0].Missing) == 1 }},
		{"invalid counts", State{Omitted: map[string]int{"x": -1, long: 1, "addresses": 2}}, map[string]int{"addresses": 2}, func(*State) bool { return true }},
	} {
		t.Run(row.name, func(t *testing.T) {
			before, err := json.Marshal(row.state)
			if err != nil {
				t.Fatal(err)
			}
			row.state.Bound()
			if !maps.Equal(row.state.Omitted, row.omitted) {
				t.Errorf("omitted %s, want %v", row.state.OmittedText(), row.omitted)
			}
			if row.check != nil && !row.check(&row.state) {
				t.Errorf("%+.2000v", row.state)
			}
			after, err := row.state.Encode()
			if err != nil || row.check == nil && string(after) != string(before) {
				t.Errorf("%.500s, before %.500s: %v", after, before, err)
			}
			if again := row.state; again.OmittedText() != row.state.OmittedText() {
				t.Errorf("bounded twice: omitted %s", again.OmittedText())
			}
		})
	}
}

// TestBoundedSize: a report that is too large does without the counters of its tasks.
func TestBoundedSize(t *testing.T) {
	counters := map[string]uint64{}
	for i := range countersMax {
		counters[fmt.Sprint(strings.Repeat("c", 60), i)] = 1
	}
	state := State{Agent: "a"}
	for range 200 {
		state.Tasks = append(state.Tasks, TaskState{Session: "s", Running: true, Counters: counters})
	}
	text, err := state.Encode()
	var got State
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || len(text) > StateMax || len(got.Tasks) != 200 || !got.Tasks[199].Running || got.Omitted["counters of tasks"] != 200 {
		t.Errorf("%d bytes, %d tasks, omitted %s: %v", len(text), len(got.Tasks), got.OmittedText(), err)
	}
	if len(state.Tasks[0].Counters) != countersMax {
		t.Error("the caller's tasks have changed")
	}
}
