package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"pillion.dev/internal/netns"
)

// receiver counts packets at the receiving host before its sockets: a reading process
// would share a processor with sender or router and disturb it.
type receiver struct {
	counts  *ebpf.Map
	program *ebpf.Program
	link    link.Link
}

func openReceiver(t *testbed) (*receiver, error) {
	r := &receiver{}
	if err := r.open(t); err != nil {
		return nil, errors.Join(fmt.Errorf("open receiver: %w", err), r.close())
	}
	return r, nil
}

func (r *receiver) open(t *testbed) (err error) {
	r.counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "arrivals", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	r.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_arrivals", Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, r.counts.FD(), 0),
			asm.Mov.Imm(asm.R2, 1),
			asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
			asm.Mov.Imm(asm.R0, 0), // NF_DROP: no socket needs it
			asm.Return(),
		},
	})
	if err != nil {
		return err
	}
	return netns.Do(t.receiver, func() (err error) {
		r.link, err = link.AttachNetfilter(link.NetfilterOptions{
			Program: r.program, ProtocolFamily: link.NetfilterProtoIPv4, Hook: link.NetfilterInetLocalIn,
		})
		return err
	})
}

func (r *receiver) close() error {
	var err error
	if r.link != nil {
		err = r.link.Close()
	}
	if r.program != nil {
		err = errors.Join(err, r.program.Close())
	}
	if r.counts != nil {
		err = errors.Join(err, r.counts.Close())
	}
	return err
}

func (r *receiver) count() (n uint64, err error) {
	err = r.counts.Lookup(uint32(0), &n)
	return n, err
}

// lull is the time without packets after which no more are expected.
const lull = 100 * time.Millisecond

// await returns how many packets arrived since before, once all did or no more arrive.
func (r *receiver) await(before uint64, expected int) (int, error) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	var last uint64
	for quiet := time.Now(); ; <-ticker.C {
		now, err := r.count()
		if err != nil || int(now-before) >= expected || now == last && time.Since(quiet) > lull {
			return int(now - before), err
		}
		if now != last {
			last, quiet = now, time.Now()
		}
	}
}
