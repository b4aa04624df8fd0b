//go:build long

package control

import (
	"testing"
	"time"

	"pillion.dev/server/authority"
)

// TestLongIngressNumberSurvivesRestart: agents have numbers from their enrolment on, which marks of
// their sessions name; the server gives none of them to another agent, not even after a restart,
// until a day has passed since the agent was deleted.
func TestLongIngressNumberSurvivesRestart(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2")
		spec := web()
		spec.Transit = map[string]string{"h1": "10.1.0.0/16", "h2": "10.2.0.0/16"}
		b.create(spec)
		b.state("web", Running)
		named := func(when string) {
			t.Helper()
			b.mu.Lock()
			defer b.mu.Unlock()
			source, destination := b.hosts["h1"].applied.Sources[0], b.hosts["h2"].applied.Destinations[0]
			if source.Number != 1 || destination.Peers[0].Number != 1 || source.Peers[0].Number != 0 {
				t.Errorf("%s: h1 marks as %d, h2 reads %d", when, source.Number, destination.Peers[0].Number)
			}
		}
		named("at first")
		b.stop()
		b.boot()
		b.state("web", Running)
		named("after a restart")

		number := func(name string) uint32 {
			t.Helper()
			if _, err := b.control.Claim(name, certificate("1"), authority.Grant{}); err != nil {
				t.Fatal(err)
			}
			b.control.mu.Lock()
			defer b.control.mu.Unlock()
			return b.control.agents[name].Number
		}
		if n := number("h3"); n != 3 {
			t.Errorf("the third agent has number %d", n)
		}
		b.mu.Lock()
		b.hosts["h3"] = &host{name: "h3", leased: map[link]time.Time{}}
		b.mu.Unlock()
		if err := b.control.Revoke("h3"); err != nil {
			t.Fatal(err)
		}
		if err := b.control.DeleteAgent("h3"); err != nil {
			t.Fatal(err)
		}
		b.stop()
		b.boot()
		if n := number("h4"); n != 4 {
			t.Errorf("an agent has number %d soon after another had it", n)
		}
		b.pass(numberKept)
		if n := number("h5"); n != 3 {
			t.Errorf("after a day the number is %d", n)
		}
	})
}
