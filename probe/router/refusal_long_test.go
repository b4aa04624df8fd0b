//go:build long

package router

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLongRefusedPacketsAreCountedOnce: each packet is in the account once, whichever hooks see
// it, and whether there is room again by then.
func TestLongRefusedPacketsAreCountedOnce(t *testing.T) {
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
