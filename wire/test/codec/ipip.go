package codec

import (
	"fmt"
	"slices"

	"pillion.dev/wire"
)

func init() { layouts[wire.IPIP] = layout{insertIPIP, extractIPIP} }

// insertIPIP puts an outer header in front of the packet that insertShim makes.
func insertIPIP(packet []byte, m Mark, port uint16) ([]byte, error) {
	inner, err := insertShim(packet, m, port)
	if err != nil {
		return nil, err
	}
	return slices.Concat(appendOuter(nil, inner, protocolIPIP, ipv4Size+len(inner)), inner), nil
}

// extractIPIP takes off the outer header and takes the shim out of the inner packet.
func extractIPIP(packet []byte, port uint16) (original []byte, m Mark, err error) {
	if err := checkProtocol(packet, protocolIPIP); err != nil {
		return nil, Mark{}, err
	}
	inner := packet[ipv4Size:]
	if len(inner) < ipv4Size || inner[0] != 0x45 || inner[9] != Protocol || fragmentField(inner)&fragmentMask != 0 {
		return nil, Mark{}, fmt.Errorf("packet in IPv4: %w", ErrNotMark)
	}
	if err := checkInner(packet, inner); err != nil {
		return nil, Mark{}, err
	}
	if original, m, err = extractShim(inner, port); err != nil {
		return nil, Mark{}, err
	}
	follow(original, packet)
	return original, m, nil
}
