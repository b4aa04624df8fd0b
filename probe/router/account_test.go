package router

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

var families = map[string]string{"ipv4": "10.9.2.2:9", "ipv6": "[fd09:2::2]:9"}

// The bar of the account: many packets, some dropped by a rule, nothing unexplained.
func TestAccountOfManyPacketsBalances(t *testing.T) {
	for name, address := range families {
		t.Run("udp "+name, func(t *testing.T) { accountOf(t, address, 30_000) })
	}
}

// accountOf sends n packets, and fails the test unless each of them is in the account:
// IP meets them all, whatever other hooks miss.
func accountOf(t *testing.T, address string, n uint64) {
	t.Helper()
	r := build(t)
	r.rule(100)
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
	r.flood(address, int(n), 22)
	s := settled(t, profile)
	r.closes(s.Account)
	a := s.Account
	if missed := r.hidden(a, n); a.Seen != n || a.Forwarded+a.Dropped+missed != n {
		t.Errorf("%d sent, %d seen, %d forwarded, %d dropped, %d missed", n, a.Seen, a.Forwarded, a.Dropped, missed)
	}
	if share := float64(a.Dropped) / float64(n); share < 0.005 || share > 0.02 {
		t.Errorf("%.4f dropped, want 0.01", share)
	}
	if p := pair(t, s, "in0", "in1"); p.Packets != a.Forwarded || p.Stages[Processing].Count != p.Packets ||
		p.Stages[Transit].Count+a.NoArrival < p.Packets || p.Stages[Transit].Count > p.Packets {
		t.Errorf("%d forwarded, %d with a processing time, %d with a transit time", a.Forwarded, p.Stages[Processing].Count, p.Stages[Transit].Count)
	}
}

// only leaves these hooks attached, and those of netfilter.
func (r *rig) only(profile *Router, names ...string) {
	r.t.Helper()
	if err := profile.detach(); err != nil {
		r.t.Fatal(err)
	}
	if err := profile.inNamespace(profile.attachFilters); err != nil {
		r.t.Fatal(err)
	}
	if err := profile.trace(names, &profile.links); err != nil {
		r.t.Fatal(err)
	}
}

// TestPacketsWithoutAnArrival: what the hooks of t1 miss is first seen at t2, with the
// same filter, and ends as all else does.
func TestPacketsWithoutAnArrival(t *testing.T) { packetsWithoutAnArrival(t, families["ipv4"]) }

func packetsWithoutAnArrival(t *testing.T, address string) {
	const n = 2000
	r := build(t)
	r.rule(10)
	profile := r.profile(Options{In: []string{"in0"}, Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.only(profile, routerProgRouterFree, routerProgRouterFreeAgain, routerProgRouterConsume, routerProgRouterStartXmit)
	r.flood(address, n, 40)
	r.flood(strings.TrimSuffix(address, "9")+"10", n, 40)
	s := settled(t, profile)
	r.closes(s.Account)
	a := s.Account
	if missed := a.Lost + a.InFlight; a.Seen != n || a.NoArrival != n || a.Forwarded+a.Dropped+missed != n || a.Dropped == 0 {
		t.Errorf("%d sent, %d seen, %d without an arrival, %d forwarded, %d dropped", n, a.Seen, a.NoArrival, a.Forwarded, a.Dropped)
	}
	p := pair(t, s, "in0", "in1")
	if p.Packets != a.Forwarded || p.Stages[Processing].Count != a.Forwarded || p.Stages[InputQueuing].Count+p.Stages[Transit].Count != 0 {
		t.Errorf("%d forwarded, %d in the pair: %+v", a.Forwarded, p.Packets, p.Stages)
	}
	for _, q := range s.Queues {
		if q.Input {
			t.Errorf("input queue of %s: %d came", q.Interface.Name, q.Arrivals)
		}
	}
}

// TestPacketsWithoutAnEnd: whose end no hook sees is in flight, until another packet has
// its memory.
func TestPacketsWithoutAnEnd(t *testing.T) {
	const n = 2000
	r := build(t)
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.only(profile)
	r.flood(families["ipv4"], n, 40)
	s, err := profile.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	a := s.Account
	if a.Seen != n || a.Lost != a.LostReasons["reused"] || a.Lost+a.InFlight != n || a.Unexplained != 0 {
		t.Errorf("%d sent; account %+v", n, a)
	}
}

func TestAccountOfStreamsBalances(t *testing.T) {
	accountOfStreams(t, map[string]string{"as it is": "", "gro and cut": "gro on tso off"})
}

// accountOfStreams sends streams with each of these features of the router's interfaces.
func accountOfStreams(t *testing.T, offloads map[string]string) {
	for offload, features := range offloads {
		t.Run(offload, func(t *testing.T) {
			r := build(t)
			r.offload(features)
			r.rule(100)
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_TCP}})
			for name, address := range families {
				// The account closes after each stream, so it does for each of them.
				if err := profile.pause(false); err != nil {
					t.Fatal(err)
				}
				r.stream(address, 20_000_000)
				s := settled(t, profile)
				r.closes(s.Account)
				t.Logf("%s: pairs: %+v", name, summary(s))
			}
		})
	}
}

func summary(s Snapshot) (lines []string) {
	for _, p := range s.Pairs {
		lines = append(lines, fmt.Sprintf("%s-%s packets %d bytes %d merged %d hold %d",
			p.In.Name, p.Out.Name, p.Packets, p.Bytes, p.Merged, p.Stages[Hold].Count))
	}
	return lines
}

// offload sets features of the router's interfaces. GRO has something to merge only if
// the hosts send what their own interfaces cut.
func (r *rig) offload(features string) {
	r.t.Helper()
	if features == "" {
		return
	}
	hosts := func(f ...string) {
		r.run(r.left, append([]string{"ethtool", "-K", "out"}, f...)...)
		r.run(r.right, append([]string{"ethtool", "-K", "out"}, f...)...)
	}
	if features == "short" {
		hosts("tso", "off", "gso", "off")
		return
	}
	if strings.Contains(features, "gro on") {
		hosts("tso", "off")
	}
	for _, device := range []string{"in0", "in1"} {
		r.run(r.router, append([]string{"ethtool", "-K", device}, strings.Fields(features)...)...)
	}
}

func TestDropReasons(t *testing.T) {
	for _, c := range []struct {
		name, want string
		prepare    func(r *rig)
	}{
		{"blackhole", "", func(r *rig) { r.run(r.router, "ip", "route", "add", "blackhole", "10.9.2.2/32") }},
		{"prohibit", "", func(r *rig) { r.run(r.router, "ip", "route", "add", "prohibit", "10.9.2.2/32") }},
		{"ttl", "", func(r *rig) { r.run(r.left, "sysctl", "-qw", "net/ipv4/ip_default_ttl=1") }},
		{"tc ingress", "TC_INGRESS", func(r *rig) {
			r.classify("in0", 2) // TC_ACT_SHOT
		}},
		{"no neighbour", "NEIGH_", func(r *rig) {
			r.run(r.right, "ip", "addr", "del", "10.9.2.2/24", "dev", "out")
			r.run(r.router, "ip", "neigh", "flush", "dev", "in1")
			r.run(r.router, "sysctl", "-qw", "net/ipv4/neigh/in1/retrans_time_ms=100")
		}},
		{"queue", "QDISC_", func(r *rig) {
			r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "2000")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := build(t)
			c.prepare(r)
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
			r.flood("10.9.2.2:9", 500, 200)
			s := settled(t, profile)
			r.closes(s.Account)
			a := s.Account
			if missed := r.hidden(a, 500); a.Dropped == 0 || a.Dropped+a.Forwarded+missed != 500 {
				t.Errorf("seen %d, dropped %d, forwarded %d, missed %d", a.Seen, a.Dropped, a.Forwarded, missed)
			}
			for reason := range a.DropReasons {
				if !strings.Contains(reason, c.want) {
					t.Errorf("reason %q, want %q", reason, c.want)
				}
			}
		})
	}
}

func TestLocalDeliveryIsNotForwarding(t *testing.T) {
	for name, address := range map[string]string{"ipv4": "10.9.1.1:9", "ipv6": "[fd09:1::1]:9"} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
			r.flood(address, 100, 100)
			s := settled(t, profile)
			r.closes(s.Account)
			if missed := r.hidden(s.Account, 100); s.Account.Local+missed != 100 || s.Account.Own == 0 {
				t.Errorf("local %d, missed %d, own %d; want 100 together, some own", s.Account.Local, missed, s.Account.Own)
			}
		})
	}
}

// tap opens a packet socket in the router, as tcpdump and DHCP clients do, and never
// reads it.
func (r *rig) tap(protocol uint16) {
	r.t.Helper()
	err := netns.Do(r.router, func() error {
		swapped := int(protocol<<8 | protocol>>8)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, swapped)
		if err == nil {
			r.t.Cleanup(func() { unix.Close(fd) })
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestListenersDoNotHidePackets(t *testing.T) {
	const listened = 5000 // many times what the buffer of a packet socket has room for
	for name, protocol := range map[string]uint16{"all": unix.ETH_P_ALL, "ip": unix.ETH_P_IP} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			r.tap(protocol)
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
			r.flood("10.9.2.2:9", listened, 100)
			r.flood("[fd09:2::2]:9", listened, 100)
			s := settled(t, profile)
			r.closes(s.Account)
			if missed := r.hidden(s.Account, 2*listened); s.Account.Forwarded+missed != 2*listened {
				t.Errorf("forwarded %d, missed %d, want %d", s.Account.Forwarded, missed, 2*listened)
			}
		})
	}
}

func TestMirroredPacketIsCountedOnce(t *testing.T) {
	r := build(t)
	r.run(r.router, "tc", "qdisc", "add", "dev", "in0", "ingress")
	r.run(r.router, "tc", "filter", "add", "dev", "in0", "ingress", "protocol", "ip", "u32",
		"match", "u32", "0", "0", "action", "mirred", "egress", "mirror", "dev", "in1")
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP}})
	r.flood("10.9.2.2:9", 1000, 100)
	s := settled(t, profile)
	r.closes(s.Account)
	if missed := r.hidden(s.Account, 1000); s.Account.Forwarded+missed != 1000 {
		t.Errorf("forwarded %d, missed %d, want 1000", s.Account.Forwarded, missed)
	}
}

func TestOutputQueuingStage(t *testing.T) {
	for name, features := range map[string]string{"short packets": "short", "cut": "tso off"} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			r.offload(features)
			r.run(r.router, "tc", "qdisc", "add", "dev", "in1", "root", "tbf", "rate", "100mbit", "burst", "16000", "limit", "300000")
			profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_TCP}})
			r.stream("10.9.2.2:9", 1_000_000)
			s := settled(t, profile)
			r.closes(s.Account)
			p := pair(t, s, "in0", "in1")
			t.Logf("%v; output %.0f us, input %.0f us; segments %d", summary(s), p.Stages[OutputQueuing].Quantile(0.5)/1000,
				p.Stages[InputQueuing].Quantile(0.5)/1000, s.Account.Segments)
			if p.Stages[OutputQueuing].Quantile(0.5) < float64(time.Millisecond) {
				t.Error("nothing waits at the output")
			}
		})
	}
}

func TestFragmentsAreCountedAsTheirPacket(t *testing.T) {
	r := build(t)
	r.run(r.router, "ip", "link", "set", "in1", "mtu", "600")
	r.run(r.left, "sysctl", "-qw", "net/ipv4/ip_no_pmtu_disc=1")
	profile := r.profile(Options{Match: Match{Protocol: unix.IPPROTO_UDP, DestinationPort: 9}})
	r.flood("10.9.2.2:9", 300, 1400)
	s := settled(t, profile)
	r.closes(s.Account)
	if missed := r.hidden(s.Account, 300); s.Account.Forwarded+missed != 300 {
		t.Errorf("forwarded %d, missed %d, want 300", s.Account.Forwarded, missed)
	}
}

// Fragments of what is meant for the router itself are put together before it is
// delivered.
func TestFragmentsForTheRouterAreDelivered(t *testing.T) {
	for name, address := range map[string]string{"ipv4": "10.9.1.1:9", "ipv6": "[fd09:1::1]:9"} {
		t.Run(name, func(t *testing.T) {
			r := build(t)
			server := r.socket(r.router, func() (*net.UDPConn, error) {
				return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address)))
			})
			profile := r.profile(Options{In: []string{"in0"}, Match: Match{Source: netip.MustParsePrefix(map[string]string{"ipv4": "10.9.1.2/32", "ipv6": "fd09:1::2/128"}[name])}})
			client := r.dial(address)
			payload := make([]byte, 4000)
			for range 100 {
				if _, err := client.Write(payload); err != nil {
					t.Fatal(err)
				}
				if n, err := server.Read(payload); n != len(payload) || err != nil {
					t.Fatalf("read %d bytes: %v", n, err)
				}
			}
			s := settled(t, profile)
			r.closes(s.Account)
			// Each datagram is three fragments.
			if missed := r.hidden(s.Account, 300); s.Account.Local+s.Account.Merged+missed != 300 {
				t.Errorf("delivered %d, put together %d, missed %d, want 300", s.Account.Local, s.Account.Merged, missed)
			}
		})
	}
}
