package wire

import "fmt"

// IP protocol numbers.
const (
	protocolIPIP = 4
	protocolTCP  = 6
	protocolUDP  = 17
)

// Insert returns a copy of an IP packet, without link-layer header, with m
// written into it. Native takes IPv6, the other encodings take IPv4; port is
// the UDP destination port of UDP, by which Insert also knows such a mark. The
// packet must be whole: its length field is len(packet), its IPv4 header
// checksum right. The transport checksum is not touched; its pseudo-header
// does not change.
//
// Insert refuses, with one of the package's errors, what it cannot mark: a
// packet that has a mark already, an IPv4 fragment, IPv4 header options
// (unless the encoding is UDP), an IPv6 Destination Options, Routing, Fragment
// or Authentication header, and a result longer than a length field can say.
// Whether the result fits the path is the caller's concern, see Overhead.
func Insert(packet []byte, enc Encoding, m Mark, port uint16) ([]byte, error) {
	marked, err := insert(packet, enc, m, port)
	if err != nil {
		return nil, fmt.Errorf("insert %v mark: %w", enc, err)
	}
	return marked, nil
}

func insert(packet []byte, enc Encoding, m Mark, port uint16) ([]byte, error) {
	if !m.Modules.valid() {
		return nil, fmt.Errorf("modules %v: %w", m.Modules, ErrModules)
	}
	if enc == UDP && port == 0 {
		return nil, fmt.Errorf("port %d: %w", port, ErrPort)
	}
	version, err := versionOf(packet)
	if err != nil {
		return nil, err
	}
	if !enc.valid() || (enc == Native) != (version == 6) {
		return nil, fmt.Errorf("%v in IPv%d: %w", enc, version, ErrEncoding)
	}
	if enc == Native {
		return insertNative(packet, m)
	}
	return insertIPv4(packet, enc, m, port)
}

// Extract is the inverse of Insert: it returns the packet as it was before it
// was marked, the mark and the encoding in which it travelled. UDP packets to
// other ports than port are not marks. The original's IPv4 header checksum is
// computed anew, after that of the marked packet was found right; in IPIP and
// UDP the original's TTL and TOS are those of the inner header.
//
// The error is ErrNotMark for an unmarked packet, for a fragment and for a
// tunnel between other addresses than those of the packet inside; ErrMalformed,
// ErrShort, ErrVersion, ErrLength or ErrChecksum for what is broken.
func Extract(packet []byte, port uint16) (original []byte, m Mark, enc Encoding, err error) {
	version, err := versionOf(packet)
	if err != nil {
		return nil, Mark{}, 0, fmt.Errorf("extract mark: %w", err)
	}
	if version == 6 {
		original, m, err = extractNative(packet)
	} else {
		original, m, enc, err = extractIPv4(packet, port)
	}
	if err != nil {
		return nil, Mark{}, 0, fmt.Errorf("extract mark: %w", err)
	}
	return original, m, enc, nil
}

// versionOf returns 4 or 6.
func versionOf(packet []byte) (int, error) {
	if len(packet) == 0 {
		return 0, fmt.Errorf("0 bytes: %w", ErrShort)
	}
	version := packet[0] >> 4
	if version != 4 && version != 6 {
		return 0, fmt.Errorf("version %d: %w", version, ErrVersion)
	}
	return int(version), nil
}
