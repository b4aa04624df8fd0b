// Package hold keeps packets back by known times, so that tests of the router's
// profile know what it has to find: a netfilter program and a process that get each
// forwarded packet, and a process that keeps a processor to itself.
//
// Each writes down when it held what, in CLOCK_MONOTONIC. The package measures
// nothing of the packets' way, and is for tests and experiments only.
package hold

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
)

// Span is when something was held, in ns of CLOCK_MONOTONIC.
type Span struct{ Begin, End uint64 }

// Length of the span.
func (s Span) Length() time.Duration { return time.Duration(s.End - s.Begin) }

// spansMax is how many are written down, as in hold_bpf.c.
const spansMax = 65536

// program is one of the programs, loaded.
type program struct {
	collection *ebpf.Collection
	links      []link.Link
}

func load(name string, constants map[string]any) (*program, error) {
	spec, err := loadHold()
	if err != nil {
		return nil, err
	}
	if err := hook.SetConstants(spec, constants); err != nil {
		return nil, err
	}
	for other := range spec.Programs {
		if other != name {
			delete(spec.Programs, other)
		}
	}
	collection, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", name, err)
	}
	return &program{collection: collection}, nil
}

// Spans are all that were written down, in their order.
func (p *program) Spans() ([]Span, error) {
	var count uint32
	if err := p.collection.Variables[holdVarHeld].Get(&count); err != nil {
		return nil, fmt.Errorf("count spans: %w", err)
	}
	all := make([]Span, min(count, spansMax))
	for i := range all {
		if err := p.collection.Maps[holdMapSpans].Lookup(uint32(i), &all[i]); err != nil {
			return nil, fmt.Errorf("read span %d: %w", i, err)
		}
	}
	return all, nil
}

// Close takes the program off.
func (p *program) Close() error {
	var err error
	for _, l := range p.links {
		err = errors.Join(err, l.Close())
	}
	p.collection.Close()
	return err
}

// Packets holds each packet that passes a netfilter hook.
type Packets struct{ *program }

// HoldPackets holds packets of at least that length, IP header included, at the hook of
// the namespace that the calling thread is in: the first an eighth of the time, the
// eighth the whole, and so on. A time of zero only writes down when packets pass. The
// program is the last of the hook but for the profile's.
func HoldPackets(at link.NetfilterInetHook, d time.Duration, length int) (*Packets, error) {
	p, err := load(holdProgHoldPacket, map[string]any{
		holdVarHoldNs: uint64(d), holdVarLengthMin: uint32(length),
	})
	if err != nil {
		return nil, fmt.Errorf("hold packets: %w", err)
	}
	for _, family := range []link.NetfilterProtocolFamily{link.NetfilterProtoIPv4, link.NetfilterProtoIPv6} {
		l, err := link.AttachNetfilter(link.NetfilterOptions{
			Program:        p.collection.Programs[holdProgHoldPacket],
			ProtocolFamily: family, Hook: at, Priority: math.MaxInt32 - 2,
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("hold packets: %w", err), p.Close())
		}
		p.links = append(p.links, l)
	}
	return &Packets{p}, nil
}

// Processor is a process that keeps a processor to itself, now and then.
type Processor struct {
	*program
	end  chan struct{}
	done chan error
}

// HoldProcessor takes the processor for the time d once in each period, until Close,
// with the priority of a real-time process and with softirqs off: on kernels that are
// not made for real time a process alone does not hold packets back, because softirqs
// run on top of it.
func HoldProcessor(cpu int, d, period time.Duration) (*Processor, error) {
	program, err := load(holdProgHoldProcessor, map[string]any{holdVarHoldNs: uint64(d)})
	if err != nil {
		return nil, fmt.Errorf("hold processor: %w", err)
	}
	p := &Processor{program: program, end: make(chan struct{}), done: make(chan error, 1)}
	go func() { p.done <- p.run(cpu, period) }()
	return p, nil
}

func (p *Processor) run(cpu int, period time.Duration) error {
	runtime.LockOSThread() // and never unlocked: the thread ends with its priority
	if err := takeProcessor(cpu); err != nil {
		return err
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	spinner := p.collection.Programs[holdProgHoldProcessor]
	for {
		select {
		case <-p.end:
			return nil
		case <-ticker.C:
		}
		if _, err := spinner.Run(&ebpf.RunOptions{Data: make([]byte, 64)}); err != nil {
			return fmt.Errorf("hold processor %d: %w", cpu, err)
		}
	}
}

// Stop lets the processor go.
func (p *Processor) Stop() error {
	close(p.end)
	return <-p.done
}

// takeProcessor puts the calling thread on a processor, before all ordinary processes.
func takeProcessor(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("go to processor %d: %w", cpu, err)
	}
	fifo := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}
	if err := unix.SchedSetAttr(0, fifo, 0); err != nil {
		return fmt.Errorf("take real-time priority: %w", err)
	}
	return nil
}
