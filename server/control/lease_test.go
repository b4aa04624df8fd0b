package control

import (
	"testing"
	"time"

	"pillion.dev/session"
)

// TestFirstLease: a source may mark as soon as it has its assignment, although no other heartbeat arrives.
func TestFirstLease(t *testing.T) {
	bed(t, func(b *testbed) {
		b.mu.Lock()
		b.silent = true
		b.mu.Unlock()
		b.join("h1", "h2")
		b.create(web())
		b.state("web", Running)
		b.mu.Lock()
		defer b.mu.Unlock()
		if h := b.hosts["h1"]; !h.leased[link{"web", "h2"}].After(time.Now()) || h.pulse.Revision != h.applied.Revision {
			t.Errorf("first heartbeat %+v, leases %v", h.pulse, h.leased)
		}
	})
}

// TestLeaseThatArrivesLate: a lease counts from the answer of the agent, which may have received it only then.
func TestLeaseThatArrivesLate(t *testing.T) {
	a := newAgent(enrolment{Name: "h1"})
	sent := session.Assignment{Revision: 1, Sources: []session.SourceTask{{Session: "web", Peers: []session.Peer{{Agent: "h2"}, {Agent: "h3"}}, Lease: session.Duration(time.Minute)}}}
	began := time.Unix(1000, 0)
	a.adopt(sent, began)
	delete(a.marking, link{"web", "h3"})
	a.renewed(sent, began.Add(time.Second))
	if end := a.leaseEnd(); !end.Equal(began.Add(time.Minute+time.Second)) || len(a.marking) != 1 {
		t.Errorf("leases %+v end at %v", a.marking, end)
	}
}
