package device

import "testing"

// moduleNetworks need modules that not every kernel has; lab/machine tests them.
var moduleNetworks = []network{
	{
		name: "VLAN",
		places: []place{
			{name: "the VLAN device", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
			{name: "the device below", near: "under", far: "under", cells: cells(udpOption, unsegmented, noOption, udpOption, native, native)},
		},
		build: over("link under type vlan id 5"),
	},
	{
		name: "bond",
		places: []place{
			{name: "the bond", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
			{name: "its port", near: "under", far: "under", cells: cells(udpOption, unsegmented, noOption, udpOption, native, native)},
		},
		build: func(a, b host) host {
			connect(a, b, "under", "under")
			for _, h := range []host{a, b} {
				h.run("ip link add name over type bond mode active-backup", "ip link set dev under down",
					"ip link set dev under master over")
			}
			ends(a, b, "over")
			return a
		},
	},
	{
		name: "ipvlan",
		places: []place{
			{name: "the device", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
		},
		build: over("link under type ipvlan mode l2"),
	},
	{
		name: "Geneve over IPv4",
		places: []place{
			{name: "the Geneve device", near: "over", far: "over", cells: cells(udpOption, inUDP, tcpOption, udpOption, native, tcpOption)},
			{name: "the device below", near: "under", far: "under", rule: underFarIPv4, cells: cells(noRoom, unsegmented, unsegmented, noRoom, unsegmented, unsegmented)},
		},
		build: over("type geneve id 7 remote FAR4"),
	},
	{
		name: "WireGuard over IPv4",
		places: []place{
			{name: "the WireGuard device", near: "over", far: "over", cells: cells(udpOption, inUDP, tcpOption, udpOption, native, tcpOption)},
		},
		build: secure,
	},
	{
		name: "IPIP and 6in4",
		places: []place{
			{name: "the device below", near: "under", far: "under", rule: underFarIPv4, cells: cells(noRoom, unsegmented, unsegmented, noRoom, unsegmented, unsegmented)},
		},
		build: over("type sit mode any local NEAR4 remote FAR4"),
	},
	{
		name: "IPsec (ESP, transport mode)",
		places: []place{
			{name: "the device", near: "over", far: "over", cells: cells(inUDP, refused, noSpace, native, refused, noSpace)},
		},
		build: encrypt,
	},
	{
		name: "VRF, sockets outside of it",
		places: []place{
			{name: "the device in the VRF", near: "under", far: "under", cells: cells(udpOption, unsegmented, noOption, udpOption, native, native)},
		},
		build: divide,
	},
	{
		name: "netkit",
		places: []place{
			{name: "the device", near: "over", far: "over", cells: cells(udpOption, unsegmented, tcpOption, udpOption, native, tcpOption)},
		},
		build: pairNetkit,
	},
}

// TestModuleDevices does what TestDevices does, with devices that are modules.
func TestModuleDevices(t *testing.T) {
	for _, n := range moduleNetworks {
		for _, at := range n.places {
			t.Run(n.name+", "+at.name, func(t *testing.T) { n.try(t, at) })
		}
	}
}
