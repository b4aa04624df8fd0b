package runner

import (
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/agent/validation"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// TestAdmitted: packets are marked to addresses of peers that are alive, not reserved, and
// proven if there is a key.
func TestAdmitted(t *testing.T) {
	address := netip.MustParseAddr("192.0.2.2")
	key := wire.NewProbeKey(make([]byte, wire.KeyLength))
	alive := session.Pulse{Alive: map[string][]string{"web": {"h2"}}}
	for _, row := range []struct {
		name     string
		key      *wire.ProbeKey
		approved bool
		reserved bool
		named    bool
		pulse    session.Pulse
		want     bool
		limit    string
	}{
		{"server of an earlier version", nil, false, false, false, alive, true, ""},
		{"not alive", nil, false, false, false, session.Pulse{}, false, ""},
		{"not proven", &key, false, false, false, alive, false, ""},
		{"approved", &key, true, false, false, alive, true, ""},
		{"reserved", nil, false, true, false, alive, false, "192.0.2.2 of h2 is not marked: it is a DNS server of this host; select h2 by its name"},
		{"reserved and approved", &key, true, true, false, alive, false, "a DNS server"},
		{"reserved and named", nil, false, true, true, alive, true, ""},
		{"reserved, named, not proven", &key, false, true, true, alive, false, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			task := sourceTask{
				SourceTask: session.SourceTask{Session: "web", Peers: []session.Peer{{Agent: "h2", Addresses: []string{"192.0.2.2"}, Named: row.named}}},
				peers:      map[netip.Addr]string{address: "h2"}, proofs: map[string]*wire.ProbeKey{"h2": row.key}, approved: map[netip.Addr]bool{address: row.approved},
			}
			s := &deviceSource{tasks: []sourceTask{task}, self: &Self{Agent: "h1"}, paths: (*validation.Prober)(nil)}
			if row.reserved {
				s.self.Reserved = map[netip.Addr]string{address: "a DNS server of this host"}
			}
			if got := s.admitted(task, row.pulse); (len(got) == 1) != row.want {
				t.Errorf("got %v", got)
			}
			counters := map[string]uint64{}
			limit := s.countAddresses(counters)
			if !strings.Contains(limit, row.limit) || (limit == "") != (row.limit == "") || (counters[session.AddressesReserved] == 1) != (row.limit != "") {
				t.Errorf("limit %q, counters %v", limit, counters)
			}
		})
	}
}
