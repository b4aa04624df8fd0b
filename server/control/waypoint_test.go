package control

import "testing"

// TestWaypointOfASession: a waypoint gets the number of the ingress but no key, and the session says when
// it does not run or cannot.
func TestWaypointOfASession(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1", "h2", "r")
		spec := web()
		spec.Transit = map[string]string{"h1": "10.1.0.0/16"}
		spec.Waypoints = []string{"r"}
		b.create(spec)
		b.state("web", Running)
		b.mu.Lock()
		waypoint, destination := b.hosts["r"].applied.Destinations, b.hosts["h2"].applied.Destinations
		b.mu.Unlock()
		if len(waypoint) != 1 || waypoint[0].Peers[0].Number == 0 || len(waypoint[0].Peers[0].Key) != 0 {
			t.Errorf("the waypoint has %+v", waypoint)
		}
		if len(destination) != 1 || len(destination[0].Peers[0].Key) == 0 {
			t.Errorf("the destination has %+v", destination)
		}
		b.control.mu.Lock()
		r := b.control.agents["r"]
		r.status = nil
		_, waits := b.control.faults(b.control.sessions["web"], b.control.Now())
		b.control.mu.Unlock()
		if len(waits) != 1 || waits[0].Found != "the waypoint on r is not running: delays are not divided there" {
			t.Errorf("waits for %+v", waits)
		}
	})
}
