//go:build long

package destination

import (
	"errors"
	"net/netip"
	"testing"
)

// TestLongManyPeers: 100,000 peers fit, their tables grow and remain when another program takes over, and a host with few peers has
// one page of each table.
func TestLongManyPeers(t *testing.T) {
	peer := func(n int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
	}
	peers := Peers{}
	for n := range 3 {
		peers[peer(n)] = Peer{}
	}
	d := open(t, Settings{Peers: peers})
	if len(d.pages) != 2 {
		t.Errorf("three peers have %d pages", len(d.pages))
	}
	for n := range 100_000 {
		peers[peer(n)] = Peer{}
	}
	if err := d.Accept(peers, nil); err != nil {
		t.Fatal(err)
	}
	if want := 2 * (100_000/peersPage + 1); len(d.pages) != want {
		t.Errorf("%d pages, want %d", len(d.pages), want)
	}
	var position uint32
	for _, n := range []int{0, 2, 99_999} {
		peer := peers[peer(n)]
		peer.Unread = true
		peers[netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)] = peer
	}
	if err := d.Accept(peers, nil); err != nil {
		t.Fatal(err)
	}
	for from, at := range d.positions {
		var raw destinationPeer
		if err := d.pages[pageName{destinationMapPeers, at / peersPage}].Lookup(at%peersPage, &raw); err != nil || (raw.Unread == 1) != peers[from.prefix].Unread {
			t.Fatalf("%v at %d: unread %d, %v", from, at, raw.Unread, err)
		}
		position = max(position, at)
	}
	if position != 100_000 {
		t.Errorf("the last position is %d", position)
	}
	for n := 100_000; n <= PeersMax; n++ {
		peers[peer(n)] = Peer{}
	}
	if err := d.Accept(peers, nil); !errors.Is(err, ErrPeers) {
		t.Errorf("more than fit: %v", err)
	}
}
