package device

import (
	"net/netip"
	"testing"
)

// Addresses of an underlay.
const (
	underNearIPv4, underFarIPv4 = "10.78.9.1", "10.78.9.2"
	underNearIPv6, underFarIPv6 = "fd78:0:0:9::1", "fd78:0:0:9::2"
)

// encodings is the list with every encoding that a host without Pillion can read first.
const encodings = "tcp-option,udp-option,native,udp"

// place is a pair of devices with probes, and how most packets of each kind of traffic
// are marked there.
type place struct {
	name  string
	cells [6]string
	near  string // device of the source
	far   string // device of the destination
	rule  string // address that packets have there, if not the traffic's own
}

// network is a way to connect two hosts.
type network struct {
	name   string
	places []place
	// build connects the hosts; traffic goes from nearIPv4 and nearIPv6 to farIPv4 and
	// farIPv6. It returns the host of the source, where that is not a.
	build func(a, b host) host
}

// kinds of traffic, the columns of the table, for each family.
var kinds = []struct {
	name string
	send func(a, b host, to netip.Addr)
}{
	{"UDP", func(a, b host, to netip.Addr) {
		f := open(a, b, to, false)
		defer f.close()
		f.datagrams(80, 600)
	}},
	{"UDP GSO", func(a, b host, to netip.Addr) {
		for _, merges := range []bool{false, true} {
			f := open(a, b, to, merges)
			f.bursts(80, 600)
			f.close()
		}
	}},
	{"TCP", func(a, b host, to netip.Addr) { transfer(a, b, to, 1<<19) }},
}

// end gives a device the addresses of traffic, and an MTU that leaves room for tunnels.
func end(h host, device, ipv4, ipv6 string) {
	h.t.Helper()
	h.run("ip link set dev " + device + " mtu 1400")
	h.address(device, ipv4+"/24", ipv6+"/64")
}

func ends(a, b host, device string) {
	a.t.Helper()
	end(a, device, sourceIPv4, sourceIPv6)
	end(b, device, sinkIPv4, sinkIPv6)
}

// Addresses of the traffic through a device.
const (
	sourceIPv4, sinkIPv4 = "10.78.3.1", "10.78.3.2"
	sourceIPv6, sinkIPv6 = "fd78:0:0:3::1", "fd78:0:0:3::2"
)

// underlay connects both hosts by a veth pair "under" with addresses.
func underlay(a, b host) {
	a.t.Helper()
	connect(a, b, "under", "under")
	a.address("under", underNearIPv4+"/24", underNearIPv6+"/64")
	b.address("under", underFarIPv4+"/24", underFarIPv6+"/64")
}

// over makes a device "over" at both hosts from a command in which NEAR and FAR stand
// for addresses of the underlay.
func over(command string) func(a, b host) host {
	return func(a, b host) host {
		a.t.Helper()
		underlay(a, b)
		for _, h := range []struct {
			host
			words []string
		}{
			{a, []string{"NEAR4", underNearIPv4, "FAR4", underFarIPv4, "NEAR6", underNearIPv6, "FAR6", underFarIPv6}},
			{b, []string{"NEAR4", underFarIPv4, "FAR4", underNearIPv4, "NEAR6", underFarIPv6, "FAR6", underNearIPv6}},
		} {
			h.run(replace("ip link add name over "+command, h.words...))
		}
		ends(a, b, "over")
		return a
	}
}

// cells in the order of the columns.
func cells(ipv4, ipv4GSO, ipv4TCP, ipv6, ipv6GSO, ipv6TCP string) [6]string {
	return [6]string{ipv4, ipv4GSO, ipv4TCP, ipv6, ipv6GSO, ipv6TCP}
}

// Cells that many places share.
const (
	udpOption = "`udp-option`"
	tcpOption = "`tcp-option`"
	noRoom    = "unmarked (no_room)"
	noOption  = "unmarked (tcp_options)"
	noSpace   = "unmarked (mtu)"
	// refused is traffic that the kernel does not let applications send, with or without
	// marks; no test sends it.
	refused = "refused"
)

var networks = []network{
	{
		name: "veth",
		places: []place{
			{name: "the device", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
		},
		build: func(a, b host) host {
			connect(a, b, "over", "over")
			ends(a, b, "over")
			return a
		},
	},
	{
		name: "bridge of the host",
		places: []place{
			{name: "the bridge", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
			{name: "its port", near: "under", far: "under", cells: cells(udpOption, unsegmented, noOption, udpOption, native, native)},
		},
		build: func(a, b host) host {
			connect(a, b, "under", "under")
			for _, h := range []host{a, b} {
				h.run("ip link add name over type bridge", "ip link set dev under master over")
			}
			ends(a, b, "over")
			return a
		},
	},
	{
		name: "bridge between hosts, as of containers",
		places: []place{
			{name: "the port towards the destination", near: "to-b", far: "over", cells: cells(inUDP, unsegmented, inUDP, native, native, native)},
		},
		build: func(a, b host) host {
			s := newHost(a.t)
			connect(a, s, "over", "to-a")
			connect(b, s, "over", "to-b")
			s.run("ip link add name bridge type bridge", "ip link set dev to-a master bridge",
				"ip link set dev to-b master bridge", "ip link set dev bridge up")
			ends(a, b, "over")
			return s
		},
	},
	{
		name: "container behind address translation",
		places: []place{
			{name: "the device of the container", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
		},
		build: func(a, b host) host {
			contain(a, b)
			return a
		},
	},
	{
		name: "container behind address translation",
		places: []place{
			{name: "the device of its host", near: "out", far: "over", cells: cells(inUDP, unsegmented, inUDP, native, native, native)},
		},
		build: contain,
	},
	{
		name: "macvlan",
		places: []place{
			{name: "the device", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
			{name: "the device below", near: "under", far: "under", cells: cells(udpOption, unsegmented, noOption, udpOption, native, native)},
		},
		build: over("link under type macvlan mode bridge"),
	},
	{
		name: "VXLAN over IPv4",
		places: []place{
			{name: "the VXLAN device", near: "over", far: "over", cells: cells(udpOption, inUDP, tcpOption, udpOption, native, tcpOption)},
			{name: "the device below", near: "under", far: "under", rule: underFarIPv4, cells: cells(noRoom, unsegmented, unsegmented, noRoom, unsegmented, unsegmented)},
		},
		build: over("type vxlan id 7 local NEAR4 remote FAR4 dstport 4789"),
	},
	{
		name: "VXLAN over IPv6",
		places: []place{
			{name: "the VXLAN device", near: "over", far: "over", cells: cells(udpOption, inUDP, tcpOption, udpOption, native, tcpOption)},
			{name: "the device below", near: "under", far: "under", rule: underFarIPv6, cells: cells(native, unsegmented, unsegmented, native, unsegmented, unsegmented)},
		},
		build: over("type vxlan id 7 local NEAR6 remote FAR6 dstport 4789"),
	},
}

// contain makes a a container of a host, which it returns: traffic from the container leaves
// by the device "out" of its host with that host's addresses.
func contain(a, b host) host {
	a.t.Helper()
	s := newHost(a.t)
	s.forward()
	connect(a, s, "over", "in")
	connect(s, b, "out", "over")
	end(a, "over", "10.78.5.2", "fd78:0:0:5::2")
	end(s, "in", "10.78.5.1", "fd78:0:0:5::1")
	end(s, "out", sourceIPv4, sourceIPv6)
	end(b, "over", sinkIPv4, sinkIPv6)
	a.run("ip route add default via 10.78.5.1", "ip -6 route add default via fd78:0:0:5::1")
	s.run("nft add table inet nat", "nft add chain inet nat leave { type nat hook postrouting priority srcnat ; }",
		"nft add rule inet nat leave oifname out masquerade")
	return s
}

// rules are the addresses whose packets the source marks.
func (at place) rules() []netip.Addr {
	if at.rule == "" {
		return parse(sinkIPv4, sinkIPv6)
	}
	return parse(at.rule)
}

// try sends every kind of traffic past probes in some places. It checks the account of all,
// and how the first mark it: what the others find depends on what the first did.
func (n network) try(t *testing.T, places ...place) {
	t.Helper()
	a, b := newHost(t), newHost(t)
	from := n.build(a, b)
	var all []*probes
	for _, at := range places {
		all = append(all, measure(from, at.near, b, at.far, encodings, at.rules()...))
	}
	for i, to := range parse(sinkIPv4, sinkIPv6) {
		for j, kind := range kinds {
			if places[0].cells[len(kinds)*i+j] == refused {
				continue
			}
			kind.send(a, b, to)
			all[0].expect(kind.name+" "+family(to), places[0].cells[len(kinds)*i+j])
			for _, p := range all[1:] {
				p.settle()
			}
		}
	}
}

// TestDevices sends every kind of traffic through every kind of device.
func TestDevices(t *testing.T) {
	for _, n := range networks {
		for _, at := range n.places {
			t.Run(n.name+", "+at.name, func(t *testing.T) { n.try(t, at) })
		}
	}
}

// TestOverlayAndUnderlay marks the packets of a tunnel inside and outside of it.
func TestOverlayAndUnderlay(t *testing.T) {
	for _, n := range networks {
		if last := n.places[len(n.places)-1]; last.rule != "" {
			t.Run(n.name, func(t *testing.T) { n.try(t, n.places...) })
		}
	}
}
