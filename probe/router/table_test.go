package router

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// occupy fills the table with packets that never end, or empties it again.
func occupy(t *testing.T, profile *Router, key uint64) {
	t.Helper()
	for i := range profile.keys {
		profile.keys[i] = key
	}
	if err := profile.collection.Variables[routerVarPacketKeys].Set(profile.keys); err != nil {
		t.Fatal(err)
	}
}

func TestPacketTableOverflow(t *testing.T) {
	r := build(t)
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}, Records: true})
	occupy(t, profile, 1)
	r.flood("10.9.2.2:9", 300, 100)
	occupy(t, profile, 0)
	s := settled(t, profile)
	r.closes(s.Account)
	if missed := r.hidden(s.Account, 300); s.Account.Forwarded+missed != 300 {
		t.Errorf("forwarded %d, missed %d, want 300", s.Account.Forwarded, missed)
	}
}

func TestOverflowTableFull(t *testing.T) {
	r := build(t)
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	fill(t, profile, 0)
	r.flood("10.9.2.2:9", 300, 100)
	occupy(t, profile, 0)
	s := settled(t, profile)
	a := s.Account
	full := a.LostReasons["full"]
	a.Lost -= full
	if missed := r.hidden(a, 300); a.Unexplained != 0 || a.Forwarded+full+missed != 300 || full < 250 {
		t.Errorf("seen %d, forwarded %d, lost %v, unexplained %d", a.Seen, a.Forwarded, a.LostReasons, a.Unexplained)
	}
}

// What a bridge forwards never meets IP: it has an account, but no stages.
func TestBridgedPacketsHaveNoStages(t *testing.T) {
	r := build(t)
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil { // bridges that ask netfilter
		r.run(r.router, "sysctl", "-qw", "net/bridge/bridge-nf-call-iptables=0")
	}
	r.run(r.router, "ip", "link", "add", "top", "type", "bridge")
	for _, device := range []string{"in0", "in1"} {
		r.run(r.router, "ip", "addr", "flush", "dev", device)
		r.run(r.router, "ip", "link", "set", device, "master", "top")
	}
	r.run(r.router, "ip", "link", "set", "top", "up")
	r.run(r.left, "ip", "addr", "add", "10.9.4.2/24", "dev", "out")
	r.run(r.right, "ip", "addr", "add", "10.9.4.3/24", "dev", "out")
	server := r.listen("10.9.4.3:8")
	r.reach(server, "10.9.4.3:8")
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.flood("10.9.4.3:9", 200, 100)
	s := settled(t, profile)
	r.closes(s.Account)
	if missed := r.hidden(s.Account, 200); s.Account.Below != s.Account.Forwarded || s.Account.Forwarded+missed != 200 || len(s.Pairs) != 0 {
		t.Errorf("below %d, forwarded %d, pairs %v", s.Account.Below, s.Account.Forwarded, summary(s))
	}
}
