package wire

import "fmt"

// An Encoding is the way in which a mark travels in a packet.
type Encoding uint8

// The encodings. Native is for IPv6, the others are for IPv4.
const (
	Native Encoding = iota // IPv6 Destination Options header
	Shim                   // shim after the IPv4 header
	IPIP                   // outer IPv4 header, then as Shim (RFC 2003)
	UDP                    // outer IPv4 and UDP headers, shim, whole packet
)

var encodingNames = [...]string{Native: "native", Shim: "shim", IPIP: "ipip", UDP: "udp"}

// ParseEncoding returns the encoding that s names: "native", "shim", "ipip" or
// "udp".
func ParseEncoding(s string) (Encoding, error) {
	for e, name := range encodingNames {
		if s == name {
			return Encoding(e), nil
		}
	}
	return 0, fmt.Errorf("parse encoding %q: not one of native, shim, ipip, udp", s)
}

// String returns the encoding's name.
func (e Encoding) String() string {
	if !e.valid() {
		return fmt.Sprintf("Encoding(%d)", uint8(e))
	}
	return encodingNames[e]
}

// MarshalText returns the encoding's name, or an error for an unknown one.
func (e Encoding) MarshalText() ([]byte, error) {
	if !e.valid() {
		return nil, fmt.Errorf("marshal encoding %d: %w", uint8(e), ErrEncoding)
	}
	return []byte(e.String()), nil
}

// UnmarshalText sets e to the encoding that text names, as ParseEncoding does.
func (e *Encoding) UnmarshalText(text []byte) (err error) {
	*e, err = ParseEncoding(string(text))
	return err
}

// Overhead returns the number of bytes that a mark with these modules adds to
// a packet, zero for an unknown encoding or a set that no mark can have.
func (e Encoding) Overhead(m Module) int {
	if !m.valid() {
		return 0
	}
	switch e {
	case Native:
		return optionsSize(m)
	case Shim:
		return shimSize(m)
	case IPIP:
		return ipv4Size + shimSize(m)
	case UDP:
		return ipv4Size + udpSize + shimSize(m)
	}
	return 0
}

func (e Encoding) valid() bool { return int(e) < len(encodingNames) }
