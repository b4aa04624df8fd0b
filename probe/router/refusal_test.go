package router

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// fill occupies all places of the tables but so many.
func fill(t *testing.T, profile *Router, free uint32) {
	t.Helper()
	overflow := profile.collection.Maps[routerMapOverflows]
	for key := range overflow.MaxEntries() - free {
		if err := overflow.Put(uint64(key+1), routerPacket{}); err != nil {
			t.Fatal(err)
		}
	}
	occupy(t, profile, 1)
}

// refusals is of how many packets the address is remembered.
func refusals(t *testing.T, profile *Router) (n uint64) {
	t.Helper()
	var key uint64
	var value routerRefusal
	entries := profile.collection.Maps[routerMapRefusals].Iterate()
	for entries.Next(&key, &value) {
		n++
	}
	if err := entries.Err(); err != nil {
		t.Fatal(err)
	}
	return n
}

const burst = 8 // packets that are inside the router at once

// bursts sends n packets, several in one call: the left host's device gets all of them
// before the router forwards the first.
func (r *rig) bursts(address string, n int) {
	r.t.Helper()
	const length = 100
	r.run(r.left, "ethtool", "-K", "out", "tx-udp-segmentation", "off")
	client := r.dial(address)
	defer client.Close()
	raw, err := client.SyscallConn()
	if err != nil {
		r.t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, length)
	}); e != nil || err != nil {
		r.t.Fatal(e, err)
	}
	for payload := make([]byte, burst*length); n > 0; n -= burst {
		for {
			_, err := client.Write(payload)
			if err == nil {
				break
			}
			if !isRefusal(err) {
				r.t.Fatal(err)
			}
		}
	}
}

// TestRefusedPacketsAreCountedOnce: each packet is in the account once, whichever hooks see
// it, and whether there is room again by then.
func TestRefusedPacketsAreCountedOnce(t *testing.T) {
	const n = 50 * burst
	udp := Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}
	for _, c := range []struct {
		name    string
		prepare func(r *rig)
		options Options
		late    bool // no hook sees the arrival
		free    uint32
		early   bool // they end before IP sees them
	}{
		{name: "no room", options: Options{Match: udp}},
		{name: "room at t2", options: Options{Match: udp}, free: burst / 2},
		{name: "room at t2, no five-tuple", prepare: (*rig).quiet, free: burst / 2},
		{name: "no room, arrival unseen", options: Options{Match: udp}, late: true},
		{name: "one place, arrival unseen", options: Options{Match: udp}, late: true, free: 1},
		{name: "GRO", prepare: func(r *rig) { r.offload("gro on") }, options: Options{Match: udp}, free: burst / 2},
		{
			name: "merged by GRO", prepare: func(r *rig) { r.offload("gro on rx-udp-gro-forwarding on") },
			options: Options{Match: udp}, early: true,
		},
		{name: "listener", prepare: func(r *rig) { r.tap(unix.ETH_P_ALL) }, options: Options{Match: udp}, free: burst / 2},
		{name: "listener, no room", prepare: func(r *rig) { r.tap(unix.ETH_P_ALL) }, options: Options{Match: udp}},
		{name: "received by a bridge", prepare: (*rig).inputBridge, options: Options{Match: udp}, free: burst / 2},
		{name: "received by a bridge without netfilter", prepare: (*rig).plainBridge, options: Options{Match: udp}, free: burst / 2},
		{name: "dropped before IP", prepare: func(r *rig) { r.classify("in0", 2) }, options: Options{Match: udp}, early: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := build(t)
			if c.prepare != nil {
				c.prepare(r)
			}
			profile := r.profile(c.options)
			if c.late {
				r.only(profile, routerProgRouterFree, routerProgRouterFreeAgain, routerProgRouterConsume, routerProgRouterStartXmit)
			}
			fill(t, profile, c.free)
			r.bursts("10.9.2.2:9", n)
			occupy(t, profile, 0)
			a := settled(t, profile).Account
			full := a.LostReasons["full"]
			if a.Unexplained != 0 || a.Forwarded+a.Dropped+a.Merged+a.Lost+a.InFlight != a.Seen {
				t.Errorf("the account does not close: %+v", a)
			}
			if c.free == 0 && full != a.Seen || c.free > 0 && !c.late && (full == 0 || a.Forwarded == 0) {
				t.Errorf("%d refused, %d forwarded", full, a.Forwarded)
			}
			a.Lost -= full
			if missed := r.hidden(withoutLate(a, c.late), n); a.Seen != n && !c.early || a.Seen+missed < n {
				t.Errorf("%d sent, %d seen, %d missed", n, a.Seen, missed)
			}
			if c.late != (a.NoArrival == n) {
				t.Errorf("%d of %d without an arrival", a.NoArrival, n)
			}
			if unseen := a.Skipped["unseen"]; unseen != 0 {
				t.Errorf("%d were counted once more, as unseen", unseen)
			}
			if left := refusals(t, profile); left > 0 {
				r.mayHide(left)
			}
		})
	}
}

// withoutLate is the account without the packets whose arrival was to be missed.
func withoutLate(a Account, late bool) Account {
	if late {
		a.NoArrival = 0
	}
	return a
}

// quiet leaves only what the test itself sends: nothing of IPv6, and no answers.
func (r *rig) quiet() {
	for _, host := range []string{r.left, r.router, r.right} {
		r.configure(host, "ipv6/conf/all/disable_ipv6", "1")
	}
	r.listen("10.9.2.2:9")
}

// inputBridge puts a bridge on top of the interface to the left.
func (r *rig) inputBridge() {
	r.ip(r.router, "link add top type bridge", "link set in0 master top", "address flush dev in0",
		"address add 10.9.1.1/24 dev top", "link set top up")
	r.ip(r.left, "neighbour flush dev out")
	server := r.listen("10.9.2.2:8")
	defer server.Close()
	r.reach(server, "10.9.2.2:8")
}

// plainBridge does the same; the bridge does not ask netfilter.
func (r *rig) plainBridge() {
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil {
		r.configure(r.router, "bridge/bridge-nf-call-iptables", "0")
	}
	r.inputBridge()
}
