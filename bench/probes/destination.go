package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"pillion.dev/internal/clock"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

const linkLength = 14 // Ethernet

// destination is the destination's object of one revision, not attached.
type destination struct {
	*ebpf.Collection
	frames   int
	original map[wire.Encoding][]byte
	sequence uint32
	random   *rand.Rand
}

func openDestination(revision string, frames int) (part, error) {
	text, err := object(revision, "probe/destination/destination_bpfel.o")
	if err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	spec.Maps["flows"].MaxEntries = 256
	state, err := clock.Read()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		"link_length": uint32(linkLength), "flow_fields": uint32(31), "udp_port": uint16(wire.Port),
		"any_peer": uint32(1), "tai_offset_ns": uint64(state.TAIOffset),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	d := &destination{frames: frames, original: map[wire.Encoding][]byte{}, random: rand.New(rand.NewPCG(1, 1))}
	vectors, err := codec.Vectors()
	if err != nil {
		return nil, err
	}
	for _, v := range vectors {
		if _, found := d.original[v.Encoding]; !found {
			d.original[v.Encoding] = v.Original
		}
	}
	d.Collection, err = ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load destination of %q: %w", revision, err)
	}
	return d, nil
}

func (d *destination) close() { d.Collection.Close() }

func (d *destination) measure() (map[string]float64, error) {
	costs := map[string]float64{}
	for _, c := range []struct {
		program  string
		encoding wire.Encoding
		spread   time.Duration // of delays: a quiet path, and one with queues
	}{
		{"destination_tc", wire.Native, 3 * time.Microsecond},
		{"destination_tc", wire.Native, 300 * time.Microsecond},
		{"destination_xdp", wire.Shim, 3 * time.Microsecond},
		{"destination_xdp", wire.Shim, 300 * time.Microsecond},
	} {
		ns, err := d.cost(d.Programs[c.program], c.encoding, c.spread)
		if err != nil {
			return nil, err
		}
		costs[fmt.Sprintf("%s, %v, delays vary by %v", c.program, c.encoding, c.spread)] = ns
	}
	return costs, nil
}

// cost is the mean of a round's frames, each with a different delay, without the
// slowest 5 %, which include interrupts.
func (d *destination) cost(program *ebpf.Program, encoding wire.Encoding, spread time.Duration) (float64, error) {
	ethertype := []byte{0x86, 0xdd}
	if encoding != wire.Native {
		ethertype = []byte{8, 0}
	}
	ethernet := append(make([]byte, linkLength-2), ethertype...)
	took := make([]time.Duration, d.frames)
	for i := range took {
		delay := 500*time.Microsecond + time.Duration(d.random.ExpFloat64()*float64(spread))
		mark := codec.Mark{
			Modules: wire.Delay | wire.Loss, Sequence: d.sequence, Single: true, Sent: codec.TimestampOf(time.Now().Add(-delay)),
		}
		d.sequence++
		packet, err := codec.Insert(d.original[encoding], encoding, mark, wire.Port)
		if err != nil {
			return 0, fmt.Errorf("mark %x: %w", d.original[encoding], err)
		}
		_, took[i], err = program.Benchmark(append(ethernet[:linkLength:linkLength], packet...), 1, nil)
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	var total time.Duration
	kept := took[:len(took)*95/100]
	for _, t := range kept {
		total += t
	}
	return float64(total.Nanoseconds()) / float64(len(kept)), nil
}
