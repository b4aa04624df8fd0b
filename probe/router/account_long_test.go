//go:build long

package router

import (
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLongOwnPacketsAtOldAddresses: packets of this host have the memory of others whose end no
// hook saw. They are its own, and wait in no queue in place of those.
func TestLongOwnPacketsAtOldAddresses(t *testing.T) {
	const n, own = 2000, 300
	r := build(t)
	profile := r.profile(Options{})
	r.only(profile)
	for range 3 {
		r.flood(families["ipv4"], n, 40)
		r.run(r.router, "ping", "-q", "-c", strconv.Itoa(own), "-i", "0.002", "10.9.2.2")
	}
	s, err := profile.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	emptied(t, s)
	if s.Account.Own < 3*own || s.Account.LostReasons["reused"] == 0 {
		t.Errorf("%d own packets, want %d: %+v", s.Account.Own, 3*own, s.Account)
	}
}

// TestLongPacketsOfOtherNamespacesAtOldAddresses: those of the left host have the memory of
// packets whose end no hook saw. They are not taken for these.
func TestLongPacketsOfOtherNamespacesAtOldAddresses(t *testing.T) {
	const n = 200
	r := build(t)
	server := r.listen(families["ipv4"])
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.only(profile)
	r.flood(families["ipv4"], n, 40)
	server.SetReadDeadline(time.Now().Add(patience))
	for range n { // they have all left the router
		if _, err := server.Read(make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
	}
	r.only(profile, routerProgRouterStartXmit)
	r.flood("10.9.1.1:10", 10*n, 40)
	s, err := profile.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	a := s.Account
	if a.Seen != n || a.Forwarded != 0 || a.Lost != a.LostReasons["reused"] || a.Lost+a.InFlight != n || a.Unexplained != 0 {
		t.Errorf("account %+v", a)
	}
}

// TestLongPacketsWithoutAnArrival: of IPv6.
func TestLongPacketsWithoutAnArrival(t *testing.T) { packetsWithoutAnArrival(t, families["ipv6"]) }

// TestLongAccountOfStreamsBalances: with buffers made at the input, or cut at the output, or without any.
func TestLongAccountOfStreamsBalances(t *testing.T) {
	accountOfStreams(t, map[string]string{"gro": "gro on", "cut at the output": "tso off", "short packets": "short"})
}
