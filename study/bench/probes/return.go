package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// returnPath is a packet of UDP that comes in on the device of a source.
type returnPath struct {
	version  int // of IP
	encoding wire.Encoding
}

// returnPaths: of ordinary packets the source only looks at the protocol; those in PDM it reads.
func returnPaths() map[string]returnPath {
	return map[string]returnPath{"return-ipv4": {4, wire.UDPOption}, "return-ipv6": {6, wire.UDPOption}, "return-pdm": {6, wire.PDM}}
}

// measure returns the time of a packet in source_return above that in an empty program, ns.
func (p returnPath) measure(revision string, frames int) (float64, error) {
	loaded, err := loadSource(revision, p.encoding, 1)
	if err != nil {
		return 0, fmt.Errorf("load source: %w", err)
	}
	defer loaded.Close()
	packet := datagram(p.version)
	if p.encoding == wire.PDM {
		packet, err = codec.Insert(packet, p.encoding, codec.Mark{Modules: wire.Loss, Single: true, Sequence: 1}, wire.Port)
		if err != nil {
			return 0, fmt.Errorf("mark datagram: %w", err)
		}
	}
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		return 0, fmt.Errorf("load empty program: %w", err)
	}
	defer empty.Close()
	frame := slices.Concat(make([]byte, linkLength-2), ethertypes[p.version], packet)
	const batch = 200 // too few for most interruptions to meet
	var took [2][]time.Duration
	for range max(1, frames/batch) {
		for i, program := range []*ebpf.Program{empty, loaded.Programs["source_return"]} {
			code, each, err := program.Benchmark(frame, batch, nil)
			if err != nil || code != 0xffffffff {
				return 0, fmt.Errorf("run: the program returned %d: %w", int32(code), err)
			}
			took[i] = append(took[i], each)
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	middle := len(took[0]) / 2
	return float64((took[1][middle] - took[0][middle]).Nanoseconds()), nil
}
