package codec

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pillion.dev/wire"
)

// What a tag covers beside the fields of the mark: tagTicks says that the time is in ticks,
// tagEpochShift is the logarithm of the nanoseconds in an epoch, which stands for the time
// of a mark without one.
const (
	tagTicks      = 0x40
	tagEpochShift = 35
)

// The kinds of tags of standard marks (wire.h).
const (
	TagPDM       = 0x86
	TagIOAME2E   = 0x87
	TagAltMark   = 0x88
	TagIOAMTrace = 0x89
)

// tagLength is the size of a tag in bytes.
const tagLength = 4

// FlowKey derives the key of a flow from the key of a pair of hosts. Ports are zero for a
// protocol that has none. IPv4 addresses are not mapped to IPv6.
func FlowKey(pair Key, src, dst netip.Addr, sport, dport uint16, protocol uint8) Key {
	version := uint8(6)
	if src.Is4() {
		version = 4
	}
	message := make([]byte, 32, 39)
	copy(message, src.AsSlice())
	copy(message[16:], dst.AsSlice())
	message = binary.BigEndian.AppendUint16(message, sport)
	message = binary.BigEndian.AppendUint16(message, dport)
	message = append(message, protocol, version)
	var flow Key
	for i := range 2 {
		binary.LittleEndian.PutUint64(flow[8*i:], pair.SipHash(append(message, uint8(i))))
	}
	return flow
}

// kinds are the kinds of encodings whose marks have one kind, whatever they carry.
var kinds = map[wire.Encoding]uint8{wire.IOAME2E: TagIOAME2E, wire.IOAMTrace: TagIOAMTrace, wire.PDM: TagPDM, wire.AltMark: TagAltMark}

// ComputeTag returns the tag of a mark in an encoding that is sent near a time: within 34 s of
// it where the mark has ticks; in its epoch where the mark has no time at all.
func (m Mark) ComputeTag(e wire.Encoding, flow Key, sentNear time.Time) uint32 {
	kind := uint8(m.Modules)
	if m.Sparse {
		kind |= typeSparse
	}
	var sent uint64
	switch {
	case m.Modules&wire.Delay == 0:
		sent = uint64(sentNear.UnixNano() >> tagEpochShift)
	case m.Ticks != 0:
		kind |= tagTicks
		sent = uint64(m.ticksNear(sentNear))
	default:
		sent = uint64(m.Sent)
	}
	if standard, ok := kinds[e]; ok {
		kind = standard
	}
	if HasBlocks(e) {
		return flow.Tag(sent, m.Block.Word(), kind)
	}
	number := m.number()
	if e == wire.PDM {
		number = m.Sequence // as it travels
	}
	return flow.Tag(sent, number, kind)
}

// Tag returns the tag of a mark with the key of its flow over what wire.h says.
func (k Key) Tag(sent uint64, number uint32, kind uint8) uint32 {
	message := binary.LittleEndian.AppendUint64(nil, sent)
	message = binary.LittleEndian.AppendUint32(message, number)
	return uint32(k.SipHash(append(message, kind)))
}

// Tag returns m with the tag that it has in this packet in an encoding. The packet has no mark
// yet: Insert writes it. pair is the key of source and destination; for sentNear see ComputeTag.
func Tag(packet []byte, e wire.Encoding, m Mark, pair Key, sentNear time.Time) (Mark, error) {
	flow, err := packetFlowKey(packet, pair)
	if err != nil {
		return Mark{}, fmt.Errorf("tag mark: %w", err)
	}
	m.Tagged, m.Tag = true, m.ComputeTag(e, flow, sentNear)
	return m, nil
}

// portProtocols have ports in the first four bytes: TCP, UDP, DCCP, SCTP and UDP-Lite.
var portProtocols = []uint8{protocolTCP, protocolUDP, 33, 132, 136}

// packetFlowKey returns the key of the flow to which an unmarked packet belongs.
func packetFlowKey(packet []byte, pair Key) (Key, error) {
	version, err := versionOf(packet)
	if err != nil {
		return Key{}, err
	}
	var src, dst netip.Addr
	var protocol uint8
	var transport int
	if version == 4 {
		if err := checkIPv4(packet); err != nil {
			return Key{}, err
		}
		src, dst = netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:]))
		transport, protocol = headerSize(packet), packet[9]
	} else {
		at, field, err := optionsPlace(packet)
		if err != nil {
			return Key{}, err
		}
		src, dst = netip.AddrFrom16([16]byte(packet[8:])), netip.AddrFrom16([16]byte(packet[24:]))
		transport, protocol = at, packet[field]
	}
	var sport, dport uint16
	if slices.Contains(portProtocols, protocol) && len(packet) >= transport+4 {
		sport, dport = binary.BigEndian.Uint16(packet[transport:]), binary.BigEndian.Uint16(packet[transport+2:])
	}
	return FlowKey(pair, src, dst, sport, dport, protocol), nil
}
