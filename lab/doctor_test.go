package lab_test

import (
	"encoding/json"
	"strings"
)

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
