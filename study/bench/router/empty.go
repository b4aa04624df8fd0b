package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"pillion.dev/internal/netns"
	"pillion.dev/probe/router"
)

// Programs of the profile begin with hookPrefix, those that do nothing with emptyPrefix.
const (
	hookPrefix  = "router_"
	emptyPrefix = "empty_"
)

// empties are programs that do nothing, at the hooks through which a forwarded packet of
// the bench passes. They cost what it takes to call a program there, and the statistics.
type empties struct {
	programs map[string]*ebpf.Program
	links    []link.Link
}

func attachEmpties(t *testbed) (*empties, error) {
	e := &empties{programs: map[string]*ebpf.Program{}}
	if err := e.attach(t); err != nil {
		return nil, errors.Join(fmt.Errorf("attach empty programs: %w", err), e.close())
	}
	return e, nil
}

func (e *empties) attach(t *testbed) error {
	for name, tracepoint := range map[string]string{"netif_rx": "netif_rx_entry", "start_xmit": "net_dev_start_xmit"} {
		if err := e.load(name, 0, &ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: tracepoint}); err != nil {
			return err
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: e.programs[emptyPrefix+name]})
		if err != nil {
			return fmt.Errorf("attach to %s: %w", tracepoint, err)
		}
		e.links = append(e.links, l)
	}
	return netns.Do(t.router, func() error {
		for name, hook := range map[string]link.NetfilterInetHook{
			"pre_routing": link.NetfilterInetPreRouting, "post_routing": link.NetfilterInetPostRouting,
		} {
			const accept = 1 // NF_ACCEPT
			if err := e.load(name, accept, &ebpf.ProgramSpec{Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter}); err != nil {
				return err
			}
			l, err := link.AttachNetfilter(link.NetfilterOptions{
				Program: e.programs[emptyPrefix+name], ProtocolFamily: link.NetfilterProtoIPv4, Hook: hook,
			})
			if err != nil {
				return fmt.Errorf("attach to %s: %w", name, err)
			}
			e.links = append(e.links, l)
		}
		return nil
	})
}

func (e *empties) load(name string, result int32, spec *ebpf.ProgramSpec) error {
	name = emptyPrefix + name
	spec.Name, spec.License = name, "GPL"
	spec.Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, result), asm.Return()}
	program, err := ebpf.NewProgram(spec)
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	e.programs[name] = program
	return nil
}

// costs returns what the kernel counted, like those in the profile's snapshot.
func (e *empties) costs() (all []router.Cost, err error) {
	for name, program := range e.programs {
		stats, err := program.Stats()
		if err != nil {
			return nil, fmt.Errorf("read cost of %s: %w", name, err)
		}
		all = append(all, router.Cost{Program: name, Runs: stats.RunCount, Time: stats.Runtime})
	}
	return all, nil
}

func (e *empties) close() error {
	var err error
	for _, l := range e.links {
		err = errors.Join(err, l.Close())
	}
	for _, p := range e.programs {
		err = errors.Join(err, p.Close())
	}
	return err
}

// emptyAt returns the name of the program that does nothing at the hook of the profile's.
func emptyAt(hook string) string { return emptyPrefix + strings.TrimPrefix(hook, hookPrefix) }
