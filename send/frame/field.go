package frame

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Ports of a flow that names none: discard (RFC 863), and one of the dynamic range.
const (
	defaultPort       = 9
	defaultSourcePort = 50000
)

// fields of a header that are set from text, by name.
var fields = map[string]func(h *Header, value string) error{
	"to": func(h *Header, value string) (err error) {
		h.Destination, h.DestinationPort, err = endpoint(value, defaultPort)
		return err
	},
	"from": func(h *Header, value string) (err error) {
		h.Source, h.SourcePort, err = endpoint(value, defaultSourcePort)
		return err
	},
	"proto": func(h *Header, value string) error {
		if !slices.Contains([]string{UDP, TCP, ICMP, Raw}, value) {
			return fmt.Errorf("must be udp, tcp, icmp or raw")
		}
		h.Protocol = value
		return nil
	},
	"ip-protocol": number(0, 255, func(h *Header, n uint64) { h.Number = uint8(n) }),
	"source-port": number(1, 0xffff, func(h *Header, n uint64) { h.SourcePort = uint16(n) }),
	"dscp":        number(0, 63, func(h *Header, n uint64) { h.TrafficClass = h.TrafficClass&3 | uint8(n)<<2 }),
	"ecn":         number(0, 3, func(h *Header, n uint64) { h.TrafficClass = h.TrafficClass&^3 | uint8(n) }),
	"ttl":         number(1, 255, func(h *Header, n uint64) { h.HopLimit = uint8(n) }),
	"flow-label":  number(0, 0xfffff, func(h *Header, n uint64) { h.FlowLabel = uint32(n) }),
	"vlan":        number(0, 4094, func(h *Header, n uint64) { h.VLANs = append(h.VLANs, uint16(n)) }),
	"sequence":    number(0, 0xffffffff, func(h *Header, n uint64) { h.Sequence = uint32(n) }),
	"identifier":  number(0, 0xffff, func(h *Header, n uint64) { h.Identifier = uint16(n) }),
	"tcp-flags": func(h *Header, value string) error {
		h.TCPFlags = value
		_, err := h.tcp()
		return err
	},
	"mac": func(h *Header, value string) (err error) {
		h.DestinationMAC, err = net.ParseMAC(value)
		return err
	},
}

// Fields are the names that Set knows, sorted.
func Fields() []string { return slices.Sorted(maps.Keys(fields)) }

// Set sets a field from text: to=192.0.2.1:9, proto=udp, dscp=46, and so on. VLAN tags add
// up, the outermost first. A header without a source port has port 50000.
func (h *Header) Set(name, value string) error {
	set, ok := fields[name]
	if !ok {
		return fmt.Errorf("%w: no field %q; fields are %s", ErrHeader, name, strings.Join(Fields(), ", "))
	}
	if err := set(h, value); err != nil {
		return fmt.Errorf("%w: %s=%s: %w", ErrHeader, name, value, err)
	}
	if h.SourcePort == 0 {
		h.SourcePort = defaultSourcePort
	}
	return nil
}

// String is the header's fields as Set reads them, without the link's.
func (h *Header) String() string {
	text := "to=" + netip.AddrPortFrom(h.Destination, h.DestinationPort).String()
	add := func(name string, value any, set bool) {
		if set {
			text += fmt.Sprintf(" %s=%v", name, value)
		}
	}
	if h.Source.IsValid() {
		add("from", netip.AddrPortFrom(h.Source, h.SourcePort), true)
	} else {
		add("source-port", h.SourcePort, h.SourcePort != 0)
	}
	add("proto", h.Protocol, h.Protocol != "")
	add("ip-protocol", h.Number, h.Protocol == Raw)
	add("tcp-flags", h.TCPFlags, h.Protocol == TCP && h.TCPFlags != "")
	add("dscp", h.TrafficClass>>2, h.TrafficClass>>2 != 0)
	add("ecn", h.TrafficClass&3, h.TrafficClass&3 != 0)
	add("ttl", h.HopLimit, h.HopLimit != 0)
	add("flow-label", h.FlowLabel, h.FlowLabel != 0)
	for _, tag := range h.VLANs {
		add("vlan", tag, true)
	}
	return text
}

func number(least, most uint64, set func(*Header, uint64)) func(*Header, string) error {
	return func(h *Header, value string) error {
		n, err := strconv.ParseUint(value, 0, 64)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a number from %d to %d", least, most)
		}
		set(h, n)
		return nil
	}
}

// endpoint reads ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT.
func endpoint(text string, port uint16) (netip.Addr, uint16, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil && a.Zone() == "" {
		return a.Unmap(), port, nil
	}
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Addr().Zone() != "" {
		return netip.Addr{}, 0, fmt.Errorf("an IP address such as 192.0.2.1 or 2001:db8::1, or with a port from 0 to 65535 192.0.2.1:9 or [2001:db8::1]:9; names are not resolved")
	}
	return a.Addr().Unmap(), a.Port(), nil
}

// ReadHex reads bytes in hexadecimal, for payloads and frames.
func ReadHex(text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHeader, err)
	}
	return b, nil
}
