package device

import (
	"net/netip"
	"strings"
	"testing"

	"pillion.dev/measure/module"
	"pillion.dev/probe/destination"
	"pillion.dev/probe/hook"
	"pillion.dev/wire"
	"pillion.dev/wire/fivetuple"
)

// openDestination attaches a destination with settings of its own.
func openDestination(h host, device string, settings destination.Settings) *destination.Destination {
	h.t.Helper()
	var d *destination.Destination
	h.do(func() error {
		found, err := hook.Find(device)
		if err != nil {
			return err
		}
		d, err = destination.Open(found, settings)
		return err
	})
	h.t.Cleanup(func() { d.Close() })
	return d
}

func filters(t *testing.T, texts string) (filters []fivetuple.Filter) {
	t.Helper()
	for text := range strings.SplitSeq(texts, "|") {
		if text == "" {
			continue
		}
		filter, err := fivetuple.ParseFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		filters = append(filters, filter)
	}
	return filters
}

// marksStay sends 20 datagrams through the router and, unless it reads no marks of the peer, 20 to it.
func marksStay(t *testing.T, hosts path, router *destination.Destination, encoding wire.Encoding, near, far netip.Addr, others uint64, peer destination.Peer) {
	t.Helper()
	before, err := router.Tally()
	if err != nil {
		t.Fatal(err)
	}
	p := measure(hosts.a, "to-r", hosts.b, "to-r", encoding.String(), near, far)
	defer p.close()
	to, transit := map[netip.Addr]host{far: hosts.b}, others
	if peer.Unread {
		transit = 0
	} else {
		to[near] = hosts.r
	}
	for address, to := range to {
		f := open(hosts.a, to, address, false)
		f.datagrams(20, 100)
		f.close()
	}
	rows, err := router.Read(destination.ByFlow)
	if err != nil {
		t.Fatal(err)
	}
	read := map[netip.Addr]uint64{}
	for _, r := range rows {
		read[r.Key.Dst] += r.Packets
	}
	after, err := router.Tally()
	if err != nil {
		t.Fatal(err)
	}
	if left := after.Reasons["transit"] - before.Reasons["transit"]; read[near] != uint64(20*len(to)-20) || read[far] != 20-others || left != transit {
		t.Errorf("%v to %v: router read %v and left %d, want %d left", encoding, far, read, left, transit)
	}
	delays, segments := segmentsOf(t, p.d)
	if _, _, atB := p.tallies(); atB.Packets != others || atB.Lost != 0 {
		t.Errorf("%v to %v: b read %+v, want %d packets", encoding, far, atB, others)
	}
	want := uint64(0)
	if len(peer.Amends) > 0 && encoding.Carries()&wire.CarriesModules != 0 { // others have no room for a time of arrival
		want = delays
	}
	if n := after.Amended - before.Amended; n != want || segments != want || delays == 0 && others > 0 && encoding.Carries()&(wire.CarriesTime) != 0 {
		t.Errorf("%v to %v: router wrote into %d marks, %d have segments, %d a delay", encoding, far, n, segments, delays)
	}
}

// segmentsOf returns how many packets have a delay, and how many segments, which make it up.
func segmentsOf(t *testing.T, d *destination.Destination) (delays, segments uint64) {
	t.Helper()
	rows, err := d.Read(destination.ByHost)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		delays += row.Delay.Count
		state := row.States()[module.Segments]
		if state == nil {
			continue
		}
		segments += state.Words[0]
		first, second := int64(state.Words[1]), int64(state.Words[5])
		if mean := (first + second) / int64(row.Delay.Count); first <= 0 || second <= 0 || mean != row.Delay.Mean || state.Words[4] != state.Words[0] {
			t.Errorf("segments %v, the mean delay of %d packets is %d ns", state.Words, row.Delay.Count, row.Delay.Mean)
		}
	}
	return delays, segments
}

// marksDatagrams says whether datagrams that a host sends get a mark in the encoding.
func marksDatagrams(e wire.Encoding, address netip.Addr) bool {
	if address.Is4() {
		return e.Applies(wire.ClassIPv4 | wire.ClassUDP)
	}
	return e.Applies(wire.ClassIPv6 | wire.ClassUDP)
}
