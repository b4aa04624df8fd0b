package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"pillion.dev/internal/clock"
	"pillion.dev/probe/test/advance"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

const (
	linkLength = 14 // Ethernet
	stripNever = 2  // STRIP_NEVER: a test run has no route
)

// destination is the destination's object of one revision, not attached.
type destination struct {
	*ebpf.Collection
	frames   int
	original map[wire.Encoding][]byte
	sequence uint32
	random   *rand.Rand
	pass     uint32
}

// collect begins an interval, as the agent does; earlier revisions need no program for it.
func (d *destination) collect() error {
	program := d.Programs["destination_collect"]
	if program == nil {
		return nil
	}
	d.pass++
	if err := d.Variables["collect_pass"].Set(d.pass); err != nil {
		return err
	}
	_, err := program.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	return err
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
		"any_peer": uint32(1), "tai_offset_ns": uint64(state.TAIOffset), "strip_options": uint32(stripNever),
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
	return costs, d.above(costs)
}

// above adds what a packet of a UDP flow costs above an empty program. Delays are
// evenly distributed.
func (d *destination) above(costs map[string]float64) error {
	for _, c := range []struct {
		version    int
		stampEvery uint32
		spread     uint32
	}{
		{6, 0, 0}, {6, 16, 1<<12 - 1}, {6, 1, 1<<12 - 1}, {6, 1, 1<<19 - 1}, {4, 16, 1<<12 - 1}, {4, 1, 1<<12 - 1},
	} {
		marked, err := codec.Insert(datagram(c.version), wire.UDPOption, codec.Mark{Modules: wire.Loss, Single: true}, wire.Port)
		if err != nil {
			return fmt.Errorf("mark datagram: %w", err)
		}
		ethertype := map[int][]byte{4: {8, 0}, 6: {0x86, 0xdd}}[c.version]
		frame := slices.Concat(make([]byte, linkLength-2), ethertype, marked)
		if err := d.collect(); err != nil {
			return err
		}
		flow, err := advance.Open(advance.Flow{Frame: frame, StampEvery: c.stampEvery, Spread: c.spread})
		if err != nil {
			return err
		}
		took, err := flow.Destination(d.Programs["destination_tc"], d.frames)
		if err := errors.Join(err, flow.Close()); err != nil {
			return err
		}
		costs[fmt.Sprintf("destination_tc above an empty program, udp-option, IPv%d, 56 B, %s", c.version, stamps(c.stampEvery, c.spread))] = float64(took.Nanoseconds())
	}
	return nil
}

func stamps(every, spread uint32) string {
	if every == 0 {
		return "no stamps"
	}
	return fmt.Sprintf("1 in %d stamped, delays vary by %v", every, time.Duration(spread+1).Round(time.Microsecond))
}

// datagram has 56 bytes of UDP payload.
func datagram(version int) []byte {
	udp := []byte{0x30, 0x39, 0x30, 0x3a, 0, 64, 0, 0}
	payload := make([]byte, 56)
	if version == 4 {
		ip := []byte{
			0x45, 0, 0, 84, 0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2,
		}
		var sum uint32
		for i := 0; i < len(ip); i += 2 {
			sum += uint32(ip[i])<<8 | uint32(ip[i+1])
		}
		sum = sum>>16 + sum&0xffff
		ip[10], ip[11] = byte(^sum>>8), byte(^sum)
		return slices.Concat(ip, udp, payload)
	}
	udp[6], udp[7] = 0x12, 0x34 // IPv6 requires a checksum, which is not verified here
	source, to := netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("2001:db8::2").As16()
	return slices.Concat([]byte{0x60, 0, 0, 0, 0, 64, 17, 64}, source[:], to[:], udp, payload)
}

// cost is the mean of a round's frames, each with a different delay, without the
// slowest 5 %, which include interrupts.
func (d *destination) cost(program *ebpf.Program, encoding wire.Encoding, spread time.Duration) (float64, error) {
	if err := d.collect(); err != nil {
		return 0, err
	}
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
