package session

import (
	"strings"
	"testing"

	"pillion.dev/wire"
)

// An agent of an earlier version limits the marks of the sources that it is a peer of, or
// has no part in a session whose marks it cannot read.
func TestEarlierAgents(t *testing.T) {
	early := lab()
	early[1].Capabilities = nil
	earlySource := lab()
	earlySource[0].Capabilities = nil
	without := lab()
	without[1].Capabilities = append([]string{wire.UDPOption.String(), wire.TCPOption.String()}, earliest...)
	all := wire.DefaultEncodings().String()
	for _, row := range []struct {
		name     string
		hosts    []Host
		change   func(*Spec)
		encoding string // empty: no source
		sparse   bool
		stamp    uint32
		warning  string
	}{
		{"none", lab(), func(*Spec) {}, all, true, 16, ""},
		{"destination without sparse marks", without, func(*Spec) {}, all, false, 16, "h1 marks every packet: the version of the agent on h2 does not support sparse marks"},
		{"destination", early, func(*Spec) {}, "native,udp", false, 16, "h1 marks in native,udp only: the version of the agent on h2"},
		{"source", earlySource, func(*Spec) {}, "native,udp", false, 0, "h1 marks in native,udp only: the version of the agent on h1"},
		{"destination without any of the encodings", early, func(s *Spec) { s.Encoding, s.Family = "udp-option", IPv4 }, "", false, 0,
			"the version of the agent on h2 does not support encoding udp-option: update it"},
		{"destination without one for IPv4", early, func(s *Spec) { s.Encoding = "udp-option,native" }, "", false, 0, "does not support encoding udp-option,native"},
		{"source without any of them", earlySource, func(s *Spec) { s.Encoding, s.Family = "tcp-option", IPv4 }, "", false, 0, "the version of the agent on h1 does not"},
		{"destination, encoding that it has", early, func(s *Spec) { s.Encoding, s.SparseMarks = "shim", false }, "native,shim", false, 16, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.SparseMarks, spec.Authentication = true, Unauthenticated
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
			if len(a.Sources) != 1 || a.Sources[0].Encoding != row.encoding || a.Sources[0].SparseMarks != row.sparse || a.Sources[0].StampEvery != row.stamp {
				t.Errorf("got %+v", a.Sources)
			}
		})
	}
}

// Marks carry tags unless an agent does not know them, which is refused if they have to.
func TestAuthenticationOfEarlierAgents(t *testing.T) {
	early := lab()
	early[1].Capabilities = append([]string{SparseMarks}, namesOf(wire.Encodings())...)
	for _, row := range []struct {
		name, setting string
		hosts         []Host
		authenticated bool
		sources       int
		warning       string
	}{
		{"new", AutoAuthentication, lab(), true, 1, ""},
		{"off", Unauthenticated, lab(), false, 1, ""},
		{"earlier", AutoAuthentication, early, false, 1, "h1 marks without authentication: the version of the agent on h2 does not support it"},
		{"earlier, required", Authenticated, early, false, 0, "does not support authentication of marks: update it, or set authentication to auto"},
		{"earlier, off", Unauthenticated, early, false, 1, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			spec.Authentication = row.setting
			plan := planOf(t, spec, row.hosts)
			if text := strings.Join(plan.Warnings, "\n"); !strings.Contains(text, row.warning) || row.warning == "" && text != "" {
				t.Errorf("warnings %q", text)
			}
			a := plan.Assignments["h1"]
			Restrict(&a, "h1", row.hosts)
			if len(a.Sources) != row.sources || row.sources > 0 && a.Sources[0].Authenticated != row.authenticated {
				t.Errorf("%+v", a.Sources)
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
	hosts[2].Capabilities = nil
	way := SourceTask{Encoding: wire.DefaultEncodings().String(), SparseMarks: true}
	new, old := way, way
	new.Session, new.Peers = "new", []Peer{{Agent: "h2"}}
	old.Session, old.Peers = "old", []Peer{{Agent: "h3"}}
	a := Assignment{Sources: []SourceTask{new, old}}
	reasons := Restrict(&a, "h1", hosts)
	if field, _, _ := differ(a.Sources[0], a.Sources[1]); field != "" || a.Sources[0].Encoding != "native,udp" {
		t.Errorf("%+v", a.Sources)
	}
	if reasons["new"] == "" || reasons["new"] != reasons["old"] {
		t.Errorf("%q", reasons)
	}
}

// A point is not assigned to an agent whose version cannot measure it, and the plan says so.
func TestPointsOfEarlierAgents(t *testing.T) {
	hosts := lab()
	hosts[0].Capabilities = append([]string{SparseMarks, MarkKeys}, namesOf(wire.Encodings())...)
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

// Traces of hops are asked of agents that read them only.
func TestHopsOfEarlierAgents(t *testing.T) {
	for _, row := range []struct {
		name         string
		capabilities []string
		hops         bool
	}{
		{"none stated", nil, false},
		{"without", []string{SparseMarks, MarkKeys}, false},
		{"with", []string{SparseMarks, MarkKeys, HopTraces}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := Assignment{Destinations: []DestinationTask{{Session: "s", Hops: true}}}
			reasons := Restrict(&a, "h1", []Host{{Name: "h1", Capabilities: row.capabilities}})
			if a.Destinations[0].Hops != row.hops || (reasons["s"] == "") != row.hops {
				t.Errorf("hops %v, %q", a.Destinations[0].Hops, reasons)
			}
		})
	}
}

// Sources of an earlier version sample at random instead of by content.
func TestHashSamplingOfEarlierAgents(t *testing.T) {
	for _, row := range []struct {
		name         string
		capabilities []string
		want         Sampling
	}{
		{"none stated", nil, Sampling{Random: 5}},
		{"without", []string{SparseMarks, MarkKeys, "native"}, Sampling{Random: 5}},
		{"with", []string{SparseMarks, MarkKeys, "native", HashSampling}, Sampling{Hash: 5, HashSeed: "x"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := Assignment{Sources: []SourceTask{{Session: "s", Encoding: "native", Sampling: Sampling{Hash: 5, HashSeed: "x"}}}}
			reasons := Restrict(&a, "h1", []Host{{Name: "h1", Capabilities: row.capabilities}})
			if a.Sources[0].Sampling != row.want || strings.Contains(reasons["s"], "samples at random") != (row.want.Hash == 0) {
				t.Errorf("%+v, %q", a.Sources[0].Sampling, reasons)
			}
		})
	}
}
