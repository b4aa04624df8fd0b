//go:build long

package lab_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestLongDoctorThroughTheServer: checks report that the agents measure and reach each other.
func TestLongDoctorThroughTheServer(t *testing.T) {
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
