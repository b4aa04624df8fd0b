package quota

import (
	"net"
	"net/netip"
)

// Source returns the key under which an address is counted: an IPv4 address, or the /64 of
// an IPv6 address, since a host can use all addresses of its subnet.
func Source(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is6() && !address.IsLoopback() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

// SourceOf is Source of the remote end of a connection, HOST:PORT, or of a host alone. What
// is no address, such as a pipe, is its own key.
func SourceOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return Source(address)
}
