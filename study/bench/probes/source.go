package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"pillion.dev/internal/clock"
	sender "pillion.dev/probe/source"
	"pillion.dev/probe/test/advance"
	"pillion.dev/wire"
)

const udpOption = 14 // bytes that the option adds to a packet of even length

// sourcePath is a packet of UDP, with 56 bytes of payload, on its way through the source.
type sourcePath struct {
	version    int // of IP
	stampEvery uint32
	cold       bool // caches
}

func sourcePaths() map[string]sourcePath {
	all := map[string]sourcePath{}
	for _, every := range []uint32{16, 1} {
		for _, version := range []int{4, 6} {
			for cold, name := range map[bool]string{false: "warm", true: "cold"} {
				all[fmt.Sprintf("source-ipv%d-%d-%s", version, every, name)] = sourcePath{version, every, cold}
			}
		}
	}
	return all
}

// measure returns the time of a packet in source_tc above that in a program that only makes
// it longer, ns.
func (p sourcePath) measure(revision string, frames int) (float64, error) {
	loaded, err := loadSource(revision, wire.UDPOption, p.stampEvery)
	if err != nil {
		return 0, fmt.Errorf("load source: %w", err)
	}
	defer loaded.Close()
	frame := slices.Concat(make([]byte, linkLength-2), ethertypes[p.version], datagram(p.version))
	took, err := above(loaded.Programs["source_tc"], advance.Flow{Frame: frame, Cold: p.cold}, frames)
	return float64(took.Nanoseconds()), err
}

// loadSource loads programs of a source that marks every packet.
func loadSource(revision string, encoding wire.Encoding, stampEvery uint32) (*ebpf.Collection, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	text, err := object(revision, "probe/source/source_bpfel.o")
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if err := setClock(spec); err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		"link_length": uint32(linkLength), "encodings_used": uint32(1) << encoding, "stamp_every": stampEvery,
		"every_packet": uint32(1), "path_mtu": uint32(1500), "lease_until": ^uint64(0),
		"probe_mark": uint32(sender.ProbeMark),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	for name := range spec.Programs {
		if !slices.Contains([]string{"source_tc", "source_general", "source_return"}, name) { // the second is absent from older revisions
			delete(spec.Programs, name)
		}
	}
	return ebpf.NewCollection(spec)
}

// setClock lets the programs of a revision tell the time: earlier ones go by TAI.
func setClock(spec *ebpf.CollectionSpec) error {
	state, err := clock.Read()
	if err != nil {
		return err
	}
	offset, err := clock.MonotonicOffset()
	if err != nil {
		return err
	}
	for name, value := range map[string]time.Duration{"tai_offset_ns": state.TAIOffset, "monotonic_offset_ns": offset} {
		if variable := spec.Variables[name]; variable != nil {
			if err := variable.Set(uint64(value)); err != nil {
				return fmt.Errorf("set %s: %w", name, err)
			}
		}
	}
	return nil
}

func above(program *ebpf.Program, packets advance.Flow, frames int) (time.Duration, error) {
	if _, marked, err := program.Test(packets.Frame); err != nil {
		return 0, err
	} else if len(marked) != len(packets.Frame)+udpOption {
		return 0, fmt.Errorf("mark a packet of %d bytes: %d bytes, want %d more", len(packets.Frame), len(marked), udpOption)
	}
	flow, err := advance.Open(packets)
	if err != nil {
		return 0, err
	}
	took, err := flow.Source(program, frames)
	return took, errors.Join(err, flow.Close())
}
