package archive

import (
	"testing"

	"pillion.dev/measure"
	_ "pillion.dev/measure/module" // registers its streams
	"pillion.dev/measure/point"
)

// TestEveryStandardStreamHasAnOwner: a new stream is in no scope before its ownership is declared.
func TestEveryStandardStreamHasAnOwner(t *testing.T) {
	all := measure.Standard()
	for _, d := range point.All() {
		all = append(all, d.Schemas...)
	}
	for _, s := range append(all, &measure.Send, &measure.SendPackets) {
		o, declared := ownerships[s.Name]
		if !declared {
			t.Errorf("%s: declare to whom its rows belong", s.Name)
		}
		if got := OwnershipOf(s); got.Source != o.Source {
			t.Errorf("%s: %+v names a column that it does not have", s.Name, o)
		}
	}
	if o := OwnershipOf(&measure.Schema{Name: "flows"}); o.Source != "" {
		t.Errorf("rows without a source belong to %+v", o)
	}
	if o := OwnershipOf(&measure.Schema{Name: "of_an_application"}); o.Source != AgentColumn {
		t.Errorf("rows of an application belong to %+v", o)
	}
}

// TestOwns: rows as they are tested in memory; the conformance suite tests the same in SQL.
func TestOwns(t *testing.T) {
	s := &Scope{Agents: []string{"a", "b"}, Links: []Link{{Sources: []string{"a", "b"}, Destinations: []string{"a", "b"}}, {Sources: []string{"c"}, Destinations: []string{"d"}}}}
	for name, test := range map[string]struct {
		schema *measure.Schema
		row    map[string]string
		want   bool
	}{
		"own pair":            {&measure.Flows, map[string]string{"source": "a", "agent": "b"}, true},
		"named pair":          {&measure.Flows, map[string]string{"source": "c", "agent": "d"}, true},
		"its reverse":         {&measure.Flows, map[string]string{"source": "d", "agent": "c"}, false},
		"either way":          {&measure.ClockPairs, map[string]string{"source": "d", "destination": "c"}, true},
		"other's source":      {&measure.Flows, map[string]string{"source": "c", "agent": "a"}, false},
		"no source":           {&measure.Flows, map[string]string{"agent": "a"}, false},
		"own host":            {&measure.Clock, map[string]string{"agent": "a"}, true},
		"end of a pair":       {&measure.Clock, map[string]string{"agent": "c"}, false},
		"server":              {&measure.Clock, map[string]string{"agent": "server"}, false},
		"own event":           {&measure.Events, map[string]string{"kind": "agent-lost", "about": "b"}, true},
		"other's event":       {&measure.Events, map[string]string{"kind": "agent-lost", "about": "c"}, false},
		"telling event":       {&measure.Events, map[string]string{"kind": "path-changed", "about": "a", "peer": "b"}, false},
		"event of nobody":     {&measure.Events, map[string]string{"kind": "loss"}, false},
		"audit":               {&measure.Audit, map[string]string{"agent": "a"}, false},
		"trace to an address": {&measure.Hops, map[string]string{"agent": "a"}, true},
		"trace to others":     {&measure.Hops, map[string]string{"agent": "a", "peer": "c"}, false},
	} {
		text := func(column string) string { return test.row[column] }
		if got := s.Owns(OwnershipOf(test.schema), text); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if (&Scope{}).Owns(OwnershipOf(test.schema), text) {
			t.Errorf("%s: in the empty scope", name)
		}
	}
}

// TestScopesTogether: both scopes have to permit a pair, and nil permits all.
func TestScopesTogether(t *testing.T) {
	a := &Scope{Agents: []string{"a", "b", "c"}, Links: []Link{{Sources: []string{"a", "b"}, Destinations: []string{"a", "b"}}, {Sources: []string{"c"}, Destinations: []string{"d"}}}}
	b := &Scope{Agents: []string{"b", "c", "e"}, Links: []Link{{Sources: []string{"b", "c"}, Destinations: []string{"a", "d"}}, {Sources: []string{"e"}, Destinations: []string{"e"}}}}
	none := &Scope{}
	for _, test := range [][2]*Scope{{a, b}, {b, a}, {a, nil}, {nil, a}, {nil, nil}, {a, none}, {none, nil}} {
		both := test[0].And(test[1])
		for _, source := range []string{"a", "b", "c", "d", "e"} {
			if got, want := both.HasAgent(source), test[0].HasAgent(source) && test[1].HasAgent(source); got != want {
				t.Errorf("%+v and %+v: agent %s is %v", test[0], test[1], source, got)
			}
			for _, destination := range []string{"a", "b", "c", "d", "e"} {
				if got, want := both.HasPair(source, destination), test[0].HasPair(source, destination) && test[1].HasPair(source, destination); got != want {
					t.Errorf("%+v and %+v: pair %s:%s is %v", test[0], test[1], source, destination, got)
				}
			}
		}
	}
}
