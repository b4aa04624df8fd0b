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

// TestForeignMarksStay: a router that reads its own marks leaves those of hosts behind it,
// unless they are in one of its prefixes.
func TestForeignMarksStay(t *testing.T) {
	for _, row := range []struct {
		name   string
		own    []string // prefixes behind the router
		xdp    bool
		others uint64 // of 20 packets to b, those that the router leaves
		amends string // destinations of packets into whose marks it writes
		unread bool   // a is a peer of the router for that only
	}{
		{name: "local", others: 20},
		{name: "local, amended, xdp", xdp: true, others: 20, amends: "dst=" + farIPv4 + "|dst=" + farIPv6},
		{name: "prefixes behind", own: []string{farIPv4 + "/24", farIPv6 + "/64"}},
		{name: "other prefixes behind, amended", own: []string{"10.99.0.0/16", "fd99::/64"}, others: 20, amends: "dst=" + farIPv4 + "|dst=" + farIPv6},
		{name: "prefixes behind, unread", own: []string{farIPv6 + "/64"}, others: 20, amends: "dst=" + farIPv6, unread: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			hosts := newPath(t)
			settings := destination.Settings{DeliveredOnly: true, XDP: row.xdp}
			for _, prefix := range row.own {
				settings.Own = append(settings.Own, netip.MustParsePrefix(prefix))
			}
			peer := destination.Peer{Amends: filters(t, row.amends), Unread: row.unread}
			settings.Peers = destination.Peers{{}: peer}
			router := openDestination(hosts.r, "to-a", settings)
			for _, encoding := range wire.Encodings() {
				for _, addresses := range [][2]string{{routerIPv4, farIPv4}, {routerIPv6, farIPv6}} {
					near, far := netip.MustParseAddr(addresses[0]), netip.MustParseAddr(addresses[1])
					if !marksDatagrams(encoding, near) || row.unread && encoding != wire.Native {
						continue
					}
					marksStay(t, hosts, router, encoding, near, far, row.others, peer)
				}
			}
		})
	}
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
