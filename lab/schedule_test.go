package lab_test

import (
	"encoding/json"
)

// runStates returns the states of a session's runs, by start.
func (b *serviceBed) runStates(session string) []string {
	b.t.Helper()
	var runs []struct{ State string }
	if err := json.Unmarshal([]byte(b.pillion("schedule", "--session", session, "-o", "json")), &runs); err != nil {
		b.t.Fatal(err)
	}
	states := make([]string, len(runs))
	for i, run := range runs {
		states[i] = run.State
	}
	return states
}
