//go:build long

package server_test

import (
	"testing"

	"pillion.dev/api/pillionv1"
	"pillion.dev/bus/bustest"
	"pillion.dev/server/authority"
)

// TestLongLeafOfAFleet: agents of a site join, are seen, carry out a session and send rows through the leaf of
// the site. Neither the death of the hub that the leaf is connected to, nor that of the leaf, loses a row or
// stores one twice: an agent that knows hubs moves there, the other waits for the leaf.
func TestLongLeafOfAFleet(t *testing.T) {
	folder := t.TempDir()
	keys, err := authority.OpenKeys(folder, authority.Options{})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := keys.BusSecret()
	if err != nil {
		t.Fatal(err)
	}
	f := startServers(t, folder, bustest.StartCallout(t, folder, secret))
	leader := f.leads()
	leaf := f.cluster.StartLeaf("paris", "north", "south")
	atLeaf := func(h *host) bool { return "tls://"+h.agent.Remote() == leaf.URL }
	north := f.host(f.servers[leader], "north", "192.0.2.1", append([]string{leaf.URL}, f.cluster.URLs...)...)
	south := f.host(f.servers[leader], "south", "192.0.2.2", leaf.URL)
	if !atLeaf(north) || !atLeaf(south) {
		t.Fatalf("the agents are connected to %s and %s, not to the leaf %s", north.agent.Remote(), south.agent.Remote(), leaf.URL)
	}
	admin := f.servers[leader].client(t, f.servers[leader].operator)
	within(t, "the session is created", func() bool {
		_, err := admin.Sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{
			Spec: &pillionv1.SessionSpec{Name: "s", Sources: []string{"north"}, Destinations: []string{"south"}},
		})
		return err == nil
	})
	f.same()
	north.renewed()
	stopNorth, stopSouth := north.sender(), south.sender()
	stored := func(of string) int64 { return number(t, admin, "SELECT count(*) FROM numbers WHERE word = '"+of+"'") }
	within(t, "rows are stored", func() bool { return stored("north") > 0 && stored("south") > 0 })

	hub := leaf.Hub()
	f.cluster.Kill(hub)
	within(t, "the leaf has moved to another hub", func() bool { now := leaf.Hub(); return now >= 0 && now != hub })
	north.renewed()
	f.cluster.Restart(hub)
	f.same()
	if !atLeaf(north) || !atLeaf(south) {
		t.Errorf("an agent has left the leaf")
	}

	leaf.Kill()
	within(t, "an agent that knows hubs has moved", func() bool { return north.agent.Connected() && !atLeaf(north) })
	before := stored("north")
	within(t, "its rows are stored", func() bool { return stored("north") > before })
	leaf.Restart()
	within(t, "the other agent is back at the leaf", func() bool { return south.agent.Connected() && atLeaf(south) })
	f.same()
	north.renewed() // not while its destination was away
	for word, sent := range map[string]uint64{"north": stopNorth(), "south": stopSouth()} {
		for _, what := range []string{"n", "DISTINCT n"} {
			if n := number(t, admin, "SELECT count("+what+") FROM numbers WHERE word = '"+word+"'"); n != int64(sent) || sent == 0 {
				t.Errorf("%d rows (%s) of %s are stored, %d were acknowledged", n, what, word, sent)
			}
		}
	}
}
