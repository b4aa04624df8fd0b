// Package advance measures what the programs of source and destination cost for each
// packet of a flow with marks in UDP options. Of BPF_PROG_TEST_RUN alone every run meets
// the same packet, as the program left it; a program in front of the measured one makes
// it the next. The package is for experiments only.
package advance

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"pillion.dev/internal/clock"
)

// Flow says what the packets are like.
type Flow struct {
	Frame      []byte // with the option at its end, and even UDP length
	StampEvery uint32 // one packet in N has a time; 0 means none
	Spread     uint32 // of delays, ns: a power of two minus one
	Cold       bool   // first-level caches hold nothing of the program
}

// optionLength is the size of struct wire_udp_option.
const optionLength = 14

// Runner feeds one flow to a program.
type Runner struct {
	objects advanceObjects
	empty   *ebpf.Program
	frame   []byte
}

// Where the fields of a frame are that a mark changes.
const (
	ethertypeAt   = 12
	ipv4LengthAt  = 16
	ipv4CheckAt   = 24
	ipv6LengthAt  = 18
	ethertypeIPv6 = 0x86dd
)

// fields returns the length and checksum of the IP header as the program reads them.
func fields(frame []byte) (length, check uint16) {
	if binary.BigEndian.Uint16(frame[ethertypeAt:]) == ethertypeIPv6 {
		return binary.NativeEndian.Uint16(frame[ipv6LengthAt:]), 0
	}
	return binary.NativeEndian.Uint16(frame[ipv4LengthAt:]), binary.NativeEndian.Uint16(frame[ipv4CheckAt:])
}

// Open loads the programs in front.
func Open(flow Flow) (*Runner, error) {
	spec, err := loadAdvance()
	if err != nil {
		return nil, err
	}
	offset, err := clock.MonotonicOffset()
	if err != nil {
		return nil, err
	}
	length, check := fields(flow.Frame)
	for name, value := range map[string]any{
		advanceVarWhole: uint32(len(flow.Frame)), advanceVarIpLength: length, advanceVarIpCheck: check,
		advanceVarOptionAt: uint32(len(flow.Frame) - optionLength), advanceVarStampEvery: flow.StampEvery,
		advanceVarSpreadMask: flow.Spread, advanceVarMonotonicOffsetNs: uint64(offset),
		advanceVarNumber: rand.Uint32N(1<<15) << 16, // a flow that begins, as of a source
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	r := &Runner{frame: flow.Frame}
	if err := spec.LoadAndAssign(&r.objects, nil); err != nil {
		return nil, fmt.Errorf("load advance: %w", err)
	}
	r.empty, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		r.objects.Close()
		return nil, fmt.Errorf("load empty program: %w", err)
	}
	if flow.Cold {
		if err := r.objects.Next.Put(uint32(1), r.objects.Evict); err != nil {
			return nil, errors.Join(fmt.Errorf("insert program: %w", err), r.Close())
		}
	}
	return r, nil
}

// Close frees the programs.
func (r *Runner) Close() error {
	r.empty.Close()
	return r.objects.Close()
}

// Destination returns how much longer a packet with a mark takes with the program than
// with an empty one.
func (r *Runner) Destination(program *ebpf.Program, packets int) (time.Duration, error) {
	return r.above(r.objects.Advance, r.empty, program, packets)
}

// Source returns how much longer a packet without a mark takes with the program than with
// one that only makes room for a mark, for which the kernel takes most of the time.
func (r *Runner) Source(program *ebpf.Program, packets int) (time.Duration, error) {
	return r.above(r.objects.Again, r.objects.Lengthen, program, packets)
}

// batch is how many packets run at a time: too few for most interruptions to meet.
const batch = 200

// above compares a program with another one: the medians of batches that alternate.
func (r *Runner) above(front, base, program *ebpf.Program, packets int) (time.Duration, error) {
	var took [2][]time.Duration
	for range max(1, packets/batch) {
		for i, p := range []*ebpf.Program{base, program} {
			if err := r.objects.Next.Put(uint32(0), p); err != nil {
				return 0, fmt.Errorf("insert program: %w", err)
			}
			code, each, err := front.Benchmark(r.frame, batch, nil)
			if err != nil {
				return 0, fmt.Errorf("run: %w", err)
			}
			if code != 0xffffffff {
				return 0, fmt.Errorf("run: the program returned %d", int32(code))
			}
			took[i] = append(took[i], each)
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	middle := len(took[0]) / 2
	return took[1][middle] - took[0][middle], nil
}
