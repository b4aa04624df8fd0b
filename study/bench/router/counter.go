package main

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// counter counts the packets of the test at the device of a host, outside the profile. At the
// receiver it also drops datagrams before its sockets: a reading process would share a
// processor with sender or router and disturb it.
type counter struct {
	counts  *ebpf.Map
	program *ebpf.Program
	link    link.Link
}

// instructions count datagrams and segments to the test's port, and drop the datagrams if asked to. Options of
// IPv4 and extension headers of IPv6 would hide the port; the test's packets have none.
func instructions(family int, counts *ebpf.Map, drops bool) asm.Instructions {
	const (
		pass, drop = 0, 2 // TCX_PASS, TCX_DROP
		frame      = 14
		// of struct __sk_buff: TCP leaves cutting to the device even where that is off.
		gsoSegments = 164
	)
	kind, protocol, header := int32(0x0800), int32(frame+9), int32(frame+20)
	if family == 6 {
		kind, protocol, header = 0x86dd, frame+6, frame+40
	}
	datagram := int32(pass)
	if drops {
		datagram = drop
	}
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(12, asm.Half), asm.JNE.Imm(asm.R0, kind, "other"),
		asm.LoadAbs(header+2, asm.Half), asm.JNE.Imm(asm.R0, port, "other"),
		asm.LoadAbs(protocol, asm.Byte),
		asm.Mov.Imm(asm.R7, pass), asm.JEq.Imm(asm.R0, unix.IPPROTO_TCP, "count"),
		asm.Mov.Imm(asm.R7, datagram), asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "other"),
		asm.LoadMapValue(asm.R1, counts.FD(), 0).WithSymbol("count"),
		asm.LoadMem(asm.R2, asm.R6, gsoSegments, asm.Word),
		asm.JGT.Imm(asm.R2, 1, "add"), asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord).WithSymbol("add"),
		asm.Mov.Reg(asm.R0, asm.R7), asm.Return(),
		asm.Mov.Imm(asm.R0, pass).WithSymbol("other"), asm.Return(),
	}
}

// count opens a counter at the device of a host: of what it sends, or of what it receives.
func (t *testbed) count(host string, attach ebpf.AttachType) (*counter, error) {
	c := &counter{}
	if err := c.open(t.family, host, attach); err != nil {
		return nil, errors.Join(fmt.Errorf("open counter: %w", err), c.close())
	}
	return c, nil
}

func (c *counter) open(family int, host string, attach ebpf.AttachType) (err error) {
	c.counts, err = ebpf.NewMap(&ebpf.MapSpec{Name: "packets", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		return err
	}
	c.program, err = ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_packets", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: instructions(family, c.counts, attach == ebpf.AttachTCXIngress),
	})
	if err != nil {
		return err
	}
	return netns.Do(host, func() error {
		device, err := net.InterfaceByName("out")
		if err != nil {
			return err
		}
		c.link, err = link.AttachTCX(link.TCXOptions{Interface: device.Index, Program: c.program, Attach: attach})
		return err
	})
}

func (c *counter) close() error {
	var failures []error
	if c.link != nil {
		failures = append(failures, c.link.Close())
	}
	if c.program != nil {
		failures = append(failures, c.program.Close())
	}
	if c.counts != nil {
		failures = append(failures, c.counts.Close())
	}
	return errors.Join(failures...)
}

func (c *counter) count() (n uint64, err error) {
	err = c.counts.Lookup(uint32(0), &n)
	return n, err
}

// lull is the time without packets after which no more are expected: a limited output sends
// them much closer to each other.
const lull = 100 * time.Millisecond

// await returns the count once it reaches what is expected or no more packets arrive.
func (c *counter) await(expected uint64) (uint64, error) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	last, quiet := uint64(0), time.Now()
	for ; ; <-ticker.C {
		now, err := c.count()
		if err != nil || now >= expected || now == last && time.Since(quiet) > lull {
			return now, err
		}
		if now != last {
			last, quiet = now, time.Now()
		}
	}
}
