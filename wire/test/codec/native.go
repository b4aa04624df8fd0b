package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"pillion.dev/wire"
)

// IPv6 next header values (RFC 8200, section 4).
const (
	nextHopByHop           = 0
	nextRouting            = 43
	nextFragment           = 44
	nextAuthentication     = 51
	nextDestinationOptions = 60
)

// ipv6Size is the size of the fixed IPv6 header.
const ipv6Size = 40

// refusals are the headers that a marked packet cannot have had: the mark
// would have to go before, between or after them depending on their meaning.
var refusals = map[uint8]error{
	nextHopByHop:           ErrMalformed, // RFC 8200: only right after the fixed header
	nextRouting:            ErrRouting,
	nextFragment:           ErrFragment,
	nextAuthentication:     ErrAuthentication,
	nextDestinationOptions: ErrDestinationOptions,
}

func init() { layouts[wire.Native] = layout{insertNative, extractNative} }

// insertNative writes m into an IPv6 packet.
func insertNative(packet []byte, m Mark, _ uint16) ([]byte, error) {
	return insertOptions(packet, func(b []byte, next uint8) []byte { return AppendOptions(b, next, m) })
}

// insertOptions puts a Destination Options header, which build appends, into an IPv6 packet.
func insertOptions(packet []byte, build func(b []byte, next uint8) []byte) ([]byte, error) {
	return insertHeader(packet, nextDestinationOptions, func(b []byte, next uint8) ([]byte, error) { return build(b, next), nil })
}

// insertHeader puts an extension header of a kind, which build appends, into an IPv6 packet.
func insertHeader(packet []byte, kind uint8, build func(b []byte, next uint8) ([]byte, error)) ([]byte, error) {
	at, field, err := optionsPlace(packet)
	if err != nil {
		return nil, err
	}
	next := packet[field]
	if refusal := refusals[next]; refusal != nil {
		return nil, fmt.Errorf("next header %d: %w", next, refusal)
	}
	if kind == nextHopByHop && at != ipv6Size {
		return nil, fmt.Errorf("packet has a Hop-by-Hop header: %w", ErrEncoding)
	}
	marked, err := build(slices.Clone(packet[:at]), next)
	if err != nil {
		return nil, err
	}
	marked = append(marked, packet[at:]...)
	payload := len(marked) - ipv6Size
	if payload > math.MaxUint16 {
		return nil, fmt.Errorf("payload of %d bytes: %w", payload, ErrTooLong)
	}
	marked[field] = kind
	binary.BigEndian.PutUint16(marked[4:], uint16(payload))
	return marked, nil
}

// extractNative takes the mark out of an IPv6 packet.
func extractNative(packet []byte, _ uint16) (original []byte, m Mark, err error) {
	original, err = extractOptions(packet, func(b []byte) (next uint8, n int, err error) {
		m, next, n, err = ParseOptions(b)
		return next, n, err
	})
	return original, m, err
}

// extractOptions takes out a Destination Options header, which parse reads: it returns what
// follows the header and how long it is.
func extractOptions(packet []byte, parse func(b []byte) (next uint8, n int, err error)) (original []byte, err error) {
	at, field, err := optionsPlace(packet)
	if err != nil {
		return nil, err
	}
	if packet[field] != nextDestinationOptions {
		return nil, fmt.Errorf("next header %d: %w", packet[field], ErrNotMark)
	}
	next, n, err := parse(packet[at:])
	if err != nil {
		return nil, err
	}
	if next == nextHopByHop { // RFC 8200: only immediately after the fixed header, so it cannot be moved
		return nil, fmt.Errorf("Hop-by-Hop header after the mark: %w", ErrMalformed)
	}
	original = make([]byte, 0, len(packet)-n)
	original = append(original, packet[:at]...)
	original = append(original, packet[at+n:]...)
	original[field] = next
	binary.BigEndian.PutUint16(original[4:], uint16(len(original)-ipv6Size))
	return original, nil
}

// optionsPlace returns the offset at which a mark belongs in an IPv6 packet
// and the offset of the next header field that leads to it.
func optionsPlace(packet []byte) (at, field int, err error) {
	if len(packet) < ipv6Size {
		return 0, 0, fmt.Errorf("%d bytes of IPv6 header: %w", len(packet), ErrShort)
	}
	if payload := int(binary.BigEndian.Uint16(packet[4:])); payload != len(packet)-ipv6Size {
		return 0, 0, fmt.Errorf("IPv6 payload length %d of %d bytes: %w", payload, len(packet)-ipv6Size, ErrLength)
	}
	if packet[6] != nextHopByHop {
		return ipv6Size, 6, nil
	}
	if len(packet) < ipv6Size+8 {
		return 0, 0, fmt.Errorf("%d bytes of Hop-by-Hop header: %w", len(packet)-ipv6Size, ErrShort)
	}
	at = ipv6Size + 8*(int(packet[ipv6Size+1])+1)
	if len(packet) < at {
		return 0, 0, fmt.Errorf("%d bytes of Hop-by-Hop header: %w", len(packet)-ipv6Size, ErrShort)
	}
	return at, ipv6Size, nil
}
