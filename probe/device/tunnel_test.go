package device

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/genl"
	"pillion.dev/internal/netns"
)

// Attributes of the generic netlink family of WireGuard (linux/wireguard.h).
const (
	wireguardSet = 1

	deviceName       = 2
	devicePrivateKey = 3
	deviceListenPort = 6
	devicePeers      = 8

	peerPublicKey  = 1
	peerEndpoint   = 4
	peerAllowedIPs = 9

	allowedFamily  = 1
	allowedAddress = 2
	allowedBits    = 3

	wireguardPort = 51820
)

// secure makes a WireGuard device "over" at both hosts.
func secure(a, b host) host {
	a.t.Helper()
	underlay(a, b)
	near, far := newKey(a), newKey(a)
	for _, h := range []struct {
		host
		key, peer *ecdh.PrivateKey
		endpoint  string
	}{{a, near, far, underFarIPv4}, {b, far, near, underNearIPv4}} {
		h.run("ip link add name over type wireguard")
		h.do(func() error {
			return configureWireguard("over", h.key, h.peer.PublicKey(), netip.MustParseAddr(h.endpoint))
		})
	}
	ends(a, b, "over")
	return a
}

func newKey(h host) *ecdh.PrivateKey {
	h.t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		h.t.Fatal(err)
	}
	return key
}

// configureWireguard gives a device its key and its only peer, which may send everything.
func configureWireguard(device string, key *ecdh.PrivateKey, peer *ecdh.PublicKey, endpoint netip.Addr) error {
	peers := nl.NewRtAttr(devicePeers|unix.NLA_F_NESTED, nil)
	only := peers.AddRtAttr(unix.NLA_F_NESTED, nil)
	only.AddRtAttr(peerPublicKey, peer.Bytes())
	only.AddRtAttr(peerEndpoint, socketAddress(endpoint))
	allowed := only.AddRtAttr(peerAllowedIPs|unix.NLA_F_NESTED, nil)
	for i, all := range []struct {
		family  uint16
		address net.IP
	}{{unix.AF_INET, net.IPv4zero.To4()}, {unix.AF_INET6, net.IPv6zero}} {
		one := allowed.AddRtAttr(i|unix.NLA_F_NESTED, nil)
		one.AddRtAttr(allowedFamily, nl.Uint16Attr(all.family))
		one.AddRtAttr(allowedAddress, all.address)
		one.AddRtAttr(allowedBits, []byte{0})
	}
	request, err := genl.NewRequest("wireguard", wireguardSet, 1, unix.NLM_F_ACK)
	if err != nil {
		return err
	}
	request.AddData(nl.NewRtAttr(deviceName, nl.ZeroTerminated(device)))
	request.AddData(nl.NewRtAttr(devicePrivateKey, key.Bytes()))
	request.AddData(nl.NewRtAttr(deviceListenPort, nl.Uint16Attr(wireguardPort)))
	request.AddData(peers)
	_, err = request.Execute(unix.NETLINK_GENERIC, 0)
	return err
}

// socketAddress is struct sockaddr_in.
func socketAddress(address netip.Addr) []byte {
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	b = binary.BigEndian.AppendUint16(b, wireguardPort)
	b = append(b, address.AsSlice()...)
	return append(b, make([]byte, 8)...)
}

// encrypt has both hosts encrypt all of their traffic (IPsec, transport mode).
func encrypt(a, b host) host {
	a.t.Helper()
	connect(a, b, "over", "over")
	ends(a, b, "over")
	const algorithm = " mode transport aead rfc4106(gcm(aes)) 0x000102030405060708090a0b0c0d0e0f10111213 128"
	for _, family := range [][2]string{{sourceIPv4, sinkIPv4}, {sourceIPv6, sinkIPv6}} {
		near, far := family[0], family[1]
		for _, h := range []host{a, b} {
			h.run("ip xfrm state add src "+near+" dst "+far+" proto esp spi 0x1001 reqid 1"+algorithm,
				"ip xfrm state add src "+far+" dst "+near+" proto esp spi 0x1002 reqid 1"+algorithm)
		}
		for _, d := range []struct {
			host
			out, in string
		}{{a, near, far}, {b, far, near}} {
			h := d.host
			for _, proto := range []string{"17", "6"} {
				h.run("ip xfrm policy add src "+d.out+" dst "+d.in+" proto "+proto+" dir out tmpl proto esp mode transport reqid 1",
					"ip xfrm policy add src "+d.in+" dst "+d.out+" proto "+proto+" dir in tmpl proto esp mode transport reqid 1")
			}
		}
	}
	return a
}

// divide puts the devices of both hosts into a routing domain of their own (VRF), whose
// traffic sockets outside of it can use.
func divide(a, b host) host {
	a.t.Helper()
	connect(a, b, "under", "under")
	for _, h := range []struct {
		host
		own4, own6, peer4, peer6 string
	}{{a, sourceIPv4, sourceIPv6, sinkIPv4, sinkIPv6}, {b, sinkIPv4, sinkIPv6, sourceIPv4, sourceIPv6}} {
		h.set("net/ipv4/tcp_l3mdev_accept", "1")
		h.set("net/ipv4/udp_l3mdev_accept", "1")
		h.set("net/ipv4/ip_nonlocal_bind", "1") // to an address of the domain
		h.set("net/ipv6/ip_nonlocal_bind", "1")
		h.run("ip link add name over type vrf table 10", "ip link set dev over up", "ip link set dev under master over")
		end(h.host, "under", h.own4, h.own6)
		h.run("ip route add "+h.peer4+"/32 dev over", "ip -6 route add "+h.peer6+"/128 dev over")
	}
	return a
}

// pairNetkit connects both hosts by a pair of netkit devices.
func pairNetkit(a, b host) host {
	a.t.Helper()
	err := netns.Do(a.name, func() error {
		target, err := os.Open(netns.Path(b.name))
		if err != nil {
			return err
		}
		defer target.Close()
		device := &netlink.Netkit{LinkAttrs: netlink.LinkAttrs{Name: "over"}, Mode: netlink.NETKIT_MODE_L2}
		device.SetPeerAttrs(&netlink.LinkAttrs{Name: "over", Namespace: netlink.NsFd(int(target.Fd()))})
		return netlink.LinkAdd(device)
	})
	if errors.Is(err, unix.EOPNOTSUPP) {
		a.t.Skip("this kernel has no netkit devices")
	}
	if err != nil {
		a.t.Fatal(err)
	}
	for _, h := range []host{a, b} {
		h.run("ip link set dev over up")
	}
	ends(a, b, "over")
	return a
}
