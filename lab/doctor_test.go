package lab_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestDoctorThroughTheServer: checks report that the agents measure and reach each other.
func TestDoctorThroughTheServer(t *testing.T) {
	t.Parallel() // it mostly waits
	b := service(t, twoHosts)
	b.measuresTheWay()
	b.running("checked", "--from", "a", "--to", "b")
	var checks []struct{ Agent, Name, Level, Found, Advice string }
	text := b.pillion("doctor", "-o", "json")
	if err := json.Unmarshal([]byte(text), &checks); err != nil {
		t.Fatal(err)
	}
	expect := func(agent, name, found string) {
		t.Helper()
		for _, c := range checks {
			if c.Agent == agent && strings.HasPrefix(c.Name, name) && strings.Contains(c.Found, found) {
				return
			}
		}
		t.Errorf("no check %q of agent %s says %q in %s", name, agent, found, text)
	}
	for _, agent := range []string{"a", "b"} {
		peer := map[string]string{"a": "b", "b": "a"}[agent]
		expect(agent, "capabilities", "root")
		expect(agent, "clock", "synchronised")
		expect(agent, "device "+peer, "MTU")
		expect(agent, "peer "+peer+" "+"10.77.1.", "path MTU")
		expect(agent, "peer "+peer+" "+"10.77.1.", "path probes answered")
		expect(agent, "peer "+peer+" "+"fd77:0:0:1:", "destination options")
	}
	expect("a", "programs on b", "part of Pillion")
	expect("b", "programs on a", "part of Pillion")
	for _, c := range checks {
		if !slices.Contains([]string{"ok", "warning"}, c.Level) {
			t.Errorf("agent %s: %+v", c.Agent, c)
		}
	}
}

// measuresTheWay checks the way between two hosts that no session measures, in both directions.
func (b *serviceBed) measuresTheWay() {
	b.t.Helper()
	var checks []struct{ Where, Name, Level, Found string }
	text := b.pillion("doctor", "a", "b", "--measure", "-o", "json")
	if err := json.Unmarshal([]byte(text), &checks); err != nil {
		b.t.Fatal(err)
	}
	for _, want := range []struct{ where, name, level, found string }{
		{"a", "agent", "ok", "connected"},
		{"b", "version", "ok", "as the server"},
		{"a > b", "session", "ok", "measures it"},
		{"a > b", "marks", "ok", "arrived"},
		{"b > a", "marks", "ok", "arrived"},
		{"a > b", "room", "ok", "had room"},
		{"a > b", "route 10.77.1.2", "ok", "path MTU"},
		{"a > b", "path 10.77.1.2", "ok", "1 hop: 10.77.1.2"},
		{"b > a", "path 10.77.1.1", "ok", "1 hop: 10.77.1.1"},
	} {
		found := false
		for _, c := range checks {
			found = found || c.Where == want.where && c.Name == want.name && c.Level == want.level && strings.Contains(c.Found, want.found)
		}
		if !found {
			b.t.Errorf("no check like %+v in %s", want, text)
		}
	}
	if sessions := b.pillion("session", "list", "-o", "json"); strings.TrimSpace(sessions) != "[]" {
		b.t.Errorf("the measurement left a session: %s", sessions)
	}
}
