package router

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
)

// constants configure the programs before they are loaded.
func (r *Router) constants() (map[string]any, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(r.namespace), &stat); err != nil {
		return nil, fmt.Errorf("identify namespace: %w", err)
	}
	in, err := r.indexes(r.options.In)
	if err != nil {
		return nil, err
	}
	out, err := r.indexes(r.options.Out)
	if err != nil {
		return nil, err
	}
	shared, err := r.spread()
	if err != nil {
		return nil, err
	}
	constants := map[string]any{
		routerVarNamespace:     uint32(stat.Ino),
		routerVarInputs:        in,
		routerVarInputCount:    uint32(len(r.options.In)),
		routerVarOutputs:       out,
		routerVarOutputCount:   uint32(len(r.options.Out)),
		routerVarSampling:      r.options.Sampling,
		routerVarRecordsWanted: r.options.Records,
		routerVarRecordsTagged: r.options.SentOnly,
		routerVarRecordsBatch:  uint32(r.options.RecordBytes / 4),
		routerVarPairPlaces:    uint32(r.places),
		routerVarShards:        uint32(r.shards),
		routerVarShared:        shared,
		routerVarBreakNs:       uint64(r.options.Break),
	}
	addMatch(constants, r.options.Match)
	return constants, nil
}

func (r *Router) indexes(names []string) ([maxDevices]uint32, error) {
	var indexes [maxDevices]uint32
	for i, name := range names {
		l, err := r.interfaces.LinkByName(name)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return indexes, fmt.Errorf("find device %q: %w", name, hook.ErrNoDevice)
		}
		if err != nil {
			return indexes, fmt.Errorf("find device %q: %w", name, err)
		}
		indexes[i] = uint32(l.Attrs().Index)
	}
	return indexes, nil
}

func addMatch(constants map[string]any, m Match) {
	if m == (Match{}) {
		return
	}
	var ports, mask [4]byte
	binary.BigEndian.PutUint16(ports[0:], m.SourcePort)
	binary.BigEndian.PutUint16(ports[2:], m.DestinationPort)
	for i, port := range []uint16{m.SourcePort, m.DestinationPort} {
		if port != 0 {
			mask[2*i], mask[2*i+1] = 0xff, 0xff
		}
	}
	var family uint8
	for _, prefix := range []netip.Prefix{m.Source, m.Destination} {
		if prefix.IsValid() {
			family = 6
			if prefix.Addr().Is4() {
				family = 4
			}
		}
	}
	constants[routerVarMatchWanted] = true
	constants[routerVarMatchFamily] = family
	constants[routerVarMatchProtocol] = m.Protocol
	constants[routerVarMatchPorts] = binary.NativeEndian.Uint32(ports[:])
	constants[routerVarMatchPortsMask] = binary.NativeEndian.Uint32(mask[:])
	constants[routerVarMatchSrc], constants[routerVarMatchSrcMask] = words(m.Source)
	constants[routerVarMatchDst], constants[routerVarMatchDstMask] = words(m.Destination)
}

// words are the address and the mask of a prefix as the programs compare them.
func words(prefix netip.Prefix) (address, mask [4]uint32) {
	if !prefix.IsValid() {
		return
	}
	var a, m [16]byte
	copy(a[:], prefix.Masked().Addr().AsSlice())
	for bit := range prefix.Bits() {
		m[bit/8] |= 0x80 >> (bit % 8)
	}
	for i := range 4 {
		address[i] = binary.NativeEndian.Uint32(a[4*i:])
		mask[i] = binary.NativeEndian.Uint32(m[4*i:])
	}
	return
}
