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

	"pillion.dev/probe/test/advance"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

const (
	linkLength = 14 // Ethernet
	stripNever = 2  // STRIP_NEVER: a test run has no route
)

// ethertypes are by the version of IP.
var ethertypes = map[int][]byte{4: {8, 0}, 6: {0x86, 0xdd}}

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

func openDestination(revision string, frames int) (*destination, error) {
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
	if err := setClock(spec); err != nil {
		return nil, err
	}
	for name, value := range map[string]any{
		"link_length": uint32(linkLength), "flow_fields": uint32(31), "udp_port": uint16(wire.Port),
		"any_peer": uint32(1), "strip_options": uint32(stripNever),
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

// destinationPath is a marked packet on its way through the destination.
type destinationPath struct {
	program  string
	encoding wire.Encoding
	spread   time.Duration // of delays: a quiet path, and one with queues
	// above measures a packet of a UDP flow of this version of IP, with 56 bytes of payload,
	// above an empty program. Delays are then evenly distributed.
	above      int
	stampEvery uint32 // 0 means never
}

func destinationPaths() map[string]destinationPath {
	const tc, xdp = "destination_tc", "destination_xdp"
	return map[string]destinationPath{
		"destination-tc-native-3us":   {program: tc, encoding: wire.Native, spread: 3 * time.Microsecond},
		"destination-tc-native-300us": {program: tc, encoding: wire.Native, spread: 300 * time.Microsecond},
		"destination-xdp-shim-3us":    {program: xdp, encoding: wire.Shim, spread: 3 * time.Microsecond},
		"destination-xdp-shim-300us":  {program: xdp, encoding: wire.Shim, spread: 300 * time.Microsecond},
		"destination-ipv6-never":      {program: tc, above: 6},
		"destination-ipv6-16-4us":     {program: tc, above: 6, stampEvery: 16, spread: 1<<12 - 1},
		"destination-ipv6-1-4us":      {program: tc, above: 6, stampEvery: 1, spread: 1<<12 - 1},
		"destination-ipv6-1-524us":    {program: tc, above: 6, stampEvery: 1, spread: 1<<19 - 1},
		"destination-ipv4-16-4us":     {program: tc, above: 4, stampEvery: 16, spread: 1<<12 - 1},
		"destination-ipv4-1-4us":      {program: tc, above: 4, stampEvery: 1, spread: 1<<12 - 1},
	}
}

func (p destinationPath) measure(revision string, frames int) (float64, error) {
	d, err := openDestination(revision, frames)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	if err := d.collect(); err != nil {
		return 0, err
	}
	if p.above == 0 {
		return d.cost(d.Programs[p.program], p.encoding, p.spread)
	}
	marked, err := codec.Insert(datagram(p.above), wire.UDPOption, codec.Mark{Modules: wire.Loss, Single: true}, wire.Port)
	if err != nil {
		return 0, fmt.Errorf("mark datagram: %w", err)
	}
	frame := slices.Concat(make([]byte, linkLength-2), ethertypes[p.above], marked)
	flow, err := advance.Open(advance.Flow{Frame: frame, StampEvery: p.stampEvery, Spread: uint32(p.spread)})
	if err != nil {
		return 0, err
	}
	took, err := flow.Destination(d.Programs[p.program], d.frames)
	return float64(took.Nanoseconds()), errors.Join(err, flow.Close())
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
