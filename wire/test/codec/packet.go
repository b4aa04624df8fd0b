package codec

import (
	"errors"
	"fmt"
	"math"

	"pillion.dev/wire"
)

// IP protocol numbers.
const (
	protocolIPIP = 4
	protocolTCP  = 6
	protocolUDP  = 17
)

// A layout inserts and extracts the marks of one encoding. Both get a packet of
// the encoding's IP version that is neither empty nor, if IPv4, broken.
type layout struct {
	insert  func(packet []byte, m Mark, port uint16) ([]byte, error)
	extract func(packet []byte, port uint16) ([]byte, Mark, error)
}

// layouts holds what the file of each encoding registers.
var layouts = map[wire.Encoding]layout{}

// Insert returns a copy of an IP packet, without link-layer header, with m
// written into it. Native takes IPv6, the other encodings take IPv4; port is
// the UDP destination port of UDP, by which Insert also recognises such a mark.
// The packet must be complete: its length field is len(packet), its IPv4 header
// checksum right. The transport checksum is not touched; its pseudo-header
// does not change.
//
// Insert refuses, with one of the package's errors, what it cannot mark: a
// packet that has a mark already, an IPv4 fragment, IPv4 header options
// (unless the encoding is UDP), an IPv6 Destination Options, Routing, Fragment
// or Authentication header, and a result longer than its length field allows.
// Whether the result fits the path is the caller's concern, see
// [wire.Encoding.Overhead]. The tag of a mark is written as it is, right or wrong: see [Tag].
func Insert(packet []byte, enc wire.Encoding, m Mark, port uint16) ([]byte, error) {
	marked, err := insert(packet, enc, m, port)
	if err != nil {
		return nil, fmt.Errorf("insert %v mark: %w", enc, err)
	}
	return marked, nil
}

func insert(packet []byte, enc wire.Encoding, m Mark, port uint16) ([]byte, error) {
	if err := m.checkIn(enc); err != nil {
		return nil, err
	}
	version, err := versionOf(packet)
	if err != nil {
		return nil, err
	}
	if !enc.Applies(versionClass(version)) {
		return nil, fmt.Errorf("%v in IPv%d: %w", enc, version, ErrEncoding)
	}
	if long := !HasTicks(enc); long && m.Ticks != 0 || !long && m.Sent|m.Received != 0 {
		return nil, fmt.Errorf("time in the format of another encoding: %w", ErrEncoding)
	}
	if version == 4 {
		if err := checkInsertIPv4(packet, enc, m, port); err != nil {
			return nil, err
		}
	}
	return layouts[enc].insert(packet, m, port)
}

// Extract is the inverse of Insert: it returns the packet as it was before it
// was marked, the mark and the encoding in which it travelled. UDP packets to
// other ports than port are not marks. The original's IPv4 header checksum is
// recomputed, after the marked packet's checksum was verified. In IPIP and UDP the
// original's DSCP and TTL are taken from the outer header, as are congestion marks
// (RFC 6040): routers see no other.
//
// The error is ErrNotMark for an unmarked packet, for a fragment and for a
// tunnel between other addresses than the inner packet's; ErrMalformed,
// ErrShort, ErrVersion, ErrLength or ErrChecksum for a broken packet.
func Extract(packet []byte, port uint16) ([]byte, Mark, wire.Encoding, error) {
	original, m, enc, err := extract(packet, port)
	if err != nil {
		return nil, Mark{}, 0, fmt.Errorf("extract mark: %w", err)
	}
	return original, m, enc, nil
}

func extract(packet []byte, port uint16) (original []byte, m Mark, enc wire.Encoding, err error) {
	version, err := versionOf(packet)
	if err != nil {
		return nil, Mark{}, 0, err
	}
	if version == 4 {
		if err := checkExtractIPv4(packet); err != nil {
			return nil, Mark{}, 0, err
		}
	}
	for _, enc := range wire.Encodings() {
		if !enc.Applies(versionClass(version)) {
			continue
		}
		original, m, err = layouts[enc].extract(packet, port)
		if !errors.Is(err, ErrNotMark) {
			return original, m, enc, err
		}
	}
	return nil, Mark{}, 0, err
}

// HasTicks reports whether an encoding carries Ticks instead of timestamps: those in an
// option of the transport do, which only the sending host can write.
func HasTicks(e wire.Encoding) bool { return !e.Applies(wire.ClassForwarded) }

// HasReceived reports whether a mark with Delay in an encoding has room for the time of a waypoint:
// Pillion's encodings that are no option of a transport have.
func HasReceived(e wire.Encoding) bool {
	return !HasTicks(e) && e.Carries()&wire.CarriesSparse != 0
}

// HasBursts reports whether a mark in an encoding can carry the number of a segmentation
// buffer: marks of standards belong to one packet.
func HasBursts(e wire.Encoding) bool { return e.Carries()&wire.CarriesSparse != 0 }

// Number returns a sequence number as a mark in an encoding carries it: the lower 16 bits in pdm.
func Number(e wire.Encoding, number uint32) uint32 {
	if e.Carries()&wire.CarriesEcho != 0 {
		return number & math.MaxUint16
	}
	return number
}

// HasBlocks reports whether a mark in an encoding carries the block of its packet, and no modules.
func HasBlocks(e wire.Encoding) bool { return e.Carries()&wire.CarriesBlock != 0 }

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

// versionClass is what a packet's version says about the encodings that apply to it.
func versionClass(version int) wire.Class {
	if version == 4 {
		return wire.ClassIPv4
	}
	return wire.ClassIPv6
}
