package session

import (
	"strings"
	"testing"

	"pillion.dev/wire"
)

// basic are the capabilities of an agent that knows the first encodings and the built-in modules.
var basic = []string{"native", "udp", "shim", "delay", "loss"}

// An agent of an earlier version limits the marks of the sources that it is a peer of, or
// has no part in a session whose marks it cannot read.
func TestEarlierAgents(t *testing.T) {
	early, earlySource, unknown := lab(), lab(), lab()
	early[1].Capabilities, earlySource[0].Capabilities, unknown[1].Capabilities = basic, basic, nil
	all := wire.DefaultEncodings().String()
	for _, row := range []struct {
		name     string
		hosts    []Host
		change   func(*Spec)
		encoding string // empty: no source
		warning  string
	}{
		{"none", lab(), func(*Spec) {}, all, ""},
		{"that has not reported yet", unknown, func(*Spec) {}, all, ""},
		{"destination", early, func(*Spec) {}, "native,udp", "h1 marks in native,udp only: the version of the agent on h2"},
		{"source", earlySource, func(*Spec) {}, "native,udp", "h1 marks in native,udp only: the version of the agent on h1"},
		{"destination without any of the encodings", early, func(s *Spec) { s.Encoding, s.Family = "udp-option", IPv4 }, "",
			"the version of the agent on h2 does not support encoding udp-option: update it"},
		{"destination without one for IPv4", early, func(s *Spec) { s.Encoding = "udp-option,native" }, "", "does not support encoding udp-option,native"},
		{"source without any of them", earlySource, func(s *Spec) { s.Encoding, s.Family = "tcp-option", IPv4 }, "", "the version of the agent on h1 does not"},
		{"destination, encoding that it has", early, func(s *Spec) { s.Encoding = "shim" }, "native,shim", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.Authentication = Unauthenticated
			row.change(&spec)
			plan := planOf(t, spec, row.hosts)
			warnings := strings.Join(plan.Warnings, "\n")
			if row.warning == "" && warnings != "" || !strings.Contains(warnings, row.warning) {
				t.Errorf("warnings %q, want %q", warnings, row.warning)
			}
			a := plan.Assignments["h1"]
			Restrict(&a, "h1", row.hosts)
			if row.encoding == "" {
				if len(a.Sources) != 0 {
					t.Errorf("got %+v", a.Sources)
				}
				return
			}
			if len(a.Sources) != 1 || a.Sources[0].Encoding != row.encoding {
				t.Errorf("got %+v", a.Sources)
			}
		})
	}
}

// What a pair shares no other agent of the session knows.
func TestPairKeys(t *testing.T) {
	key := NewKey()
	seen := map[string]bool{string(key): true}
	for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"ab", ""}, {"", "ab"}} {
		k := key.Pair(pair[0], pair[1])
		if len(k) != wire.KeyLength || seen[string(k)] || string(k) != string(key.Pair(pair[0], pair[1])) {
			t.Errorf("%v: a key of another pair, or not the same twice", pair)
		}
		seen[string(k)] = true
	}
}

// Sessions on one interface agree after the limits of one's peers apply.
func TestRestrictTogether(t *testing.T) {
	hosts := lab()
	hosts[2].Capabilities = basic
	way := SourceTask{Encoding: wire.DefaultEncodings().String()}
	new, old := way, way
	new.Session, new.Peers = "new", []Peer{{Agent: "h2"}}
	old.Session, old.Peers = "old", []Peer{{Agent: "h3"}}
	a := Assignment{Sources: []SourceTask{new, old}}
	reasons := Restrict(&a, "h1", hosts)
	if differ(a.Sources[0], a.Sources[1]) || a.Sources[0].Encoding != "native,udp" {
		t.Errorf("%+v", a.Sources)
	}
	if reasons["new"] == "" || reasons["new"] != reasons["old"] {
		t.Errorf("%q", reasons)
	}
}

// A point is not assigned to an agent whose version cannot measure it, and the plan says so.
func TestPointsOfEarlierAgents(t *testing.T) {
	hosts := lab()
	hosts[0].Capabilities = append(namesOf(wire.Encodings()), basic...)
	spec := good()
	spec.Points = []PointRequest{{Name: "send"}}
	plan := planOf(t, spec, hosts)
	const why = "does not measure send: the version of the agent does not support it"
	if !strings.Contains(strings.Join(plan.Warnings, "\n"), "h1 "+why) {
		t.Errorf("warnings %q", plan.Warnings)
	}
	a := plan.Assignments["h1"]
	if len(a.Points) != 1 {
		t.Fatalf("points %+v", a.Points)
	}
	if reasons := Restrict(&a, "h1", hosts); len(a.Points) != 0 || reasons[spec.Name] != why {
		t.Errorf("%+v, %q", a.Points, reasons)
	}
	hosts[0].Capabilities = Capabilities()
	if a = plan.Assignments["h1"]; len(Restrict(&a, "h1", hosts)) != 0 || len(a.Points) != 1 {
		t.Errorf("restricted although able: %+v", a.Points)
	}
}
