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

// source is the source's object of one revision, not attached, by how often it stamps.
type source struct {
	frames int
	loaded map[uint32]*ebpf.Collection
}

func openSource(revision string, frames int) (part, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	s := &source{frames, map[uint32]*ebpf.Collection{}}
	for _, every := range []uint32{16, 1} {
		var err error
		if s.loaded[every], err = loadSource(revision, every); err != nil {
			s.close()
			return nil, fmt.Errorf("load source of %q: %w", revision, err)
		}
	}
	return s, nil
}

func loadSource(revision string, stampEvery uint32) (*ebpf.Collection, error) {
	text, err := object(revision, "probe/source/source_bpfel.o")
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	state, err := clock.Read()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		"link_length": uint32(linkLength), "encodings_used": uint32(1) << wire.UDPOption, "stamp_every": stampEvery,
		"every_packet": uint32(1), "path_mtu": uint32(1500), "lease_until": ^uint64(0), "tai_offset_ns": uint64(state.TAIOffset),
		"probe_mark": uint32(sender.ProbeMark),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	for name := range spec.Programs {
		if name != "source_tc" {
			delete(spec.Programs, name)
		}
	}
	return ebpf.NewCollection(spec)
}

func (s *source) close() {
	for _, c := range s.loaded {
		c.Close()
	}
}

func (s *source) measure() (map[string]float64, error) {
	costs := map[string]float64{}
	for every, loaded := range s.loaded {
		for version, ethertype := range map[int][]byte{4: {8, 0}, 6: {0x86, 0xdd}} {
			for _, cold := range []bool{false, true} {
				frame := slices.Concat(make([]byte, linkLength-2), ethertype, datagram(version))
				took, err := s.above(loaded.Programs["source_tc"], advance.Flow{Frame: frame, Cold: cold})
				if err != nil {
					return nil, err
				}
				costs[fmt.Sprintf("source_tc above a longer packet, udp-option, IPv%d, 56 B, 1 in %d stamped, %s caches",
					version, every, map[bool]string{false: "warm", true: "cold"}[cold])] = float64(took.Nanoseconds())
			}
		}
	}
	return costs, nil
}

func (s *source) above(program *ebpf.Program, packets advance.Flow) (time.Duration, error) {
	if _, marked, err := program.Test(packets.Frame); err != nil {
		return 0, err
	} else if len(marked) != len(packets.Frame)+udpOption {
		return 0, fmt.Errorf("mark a packet of %d bytes: %d bytes, want %d more", len(packets.Frame), len(marked), udpOption)
	}
	flow, err := advance.Open(packets)
	if err != nil {
		return 0, err
	}
	took, err := flow.Source(program, s.frames)
	return took, errors.Join(err, flow.Close())
}
