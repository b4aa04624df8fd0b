package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"pillion.dev/internal/netns"
)

// treatment is what a run applies to the testbed. Starting and stopping it is never inside
// the measured time.
type treatment interface {
	start(ctx context.Context, t *testbed) (running, error)
}

// running is a treatment in effect.
type running interface {
	// cpuTime is the CPU time of the treatment's processes so far.
	cpuTime() time.Duration
	// stop removes the treatment and returns its counters.
	stop() (account, error)
}

// account has the counters of a treatment, warm-up included.
type account struct {
	Marked   float64 `json:"marked"`   // packets, or counted with sparse marks, by the source
	Accepted float64 `json:"accepted"` // of these, by the destination
	// Missed are packets that a capture did not see.
	Missed float64 `json:"missed"`
}

// native is no treatment.
type native struct{}

func (native) start(context.Context, *testbed) (running, error) { return native{}, nil }
func (native) cpuTime() time.Duration                           { return 0 }
func (native) stop() (account, error)                           { return account{}, nil }

// empty attaches programs that do nothing in place of Pillion's: the minimum cost of any
// BPF program there. Needs tcx (Linux 6.6).
type empty struct{}

const (
	emptyEgress  = "empty_egress"
	emptyIngress = "empty_ingress"
)

var doNothing = asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()} // TCX_NEXT

func (empty) start(_ context.Context, t *testbed) (running, error) {
	var attached closers
	for _, p := range []plain{
		{emptyEgress, t.source, ebpf.AttachTCXEgress, doNothing}, {emptyIngress, t.destination, ebpf.AttachTCXIngress, doNothing},
	} {
		done, err := p.attach()
		attached = append(attached, done...)
		if err != nil {
			return nil, errors.Join(err, attached.close())
		}
	}
	return attached, nil
}

// plain is a program of a few instructions.
type plain struct {
	name string
	at   side
	kind ebpf.AttachType
	code asm.Instructions
}

func (p plain) attach() (attached closers, err error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: p.name, Type: ebpf.SchedCLS, License: "GPL", Instructions: p.code})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.name, err)
	}
	attached = closers{program.Close}
	err = netns.Do(p.at.namespace, func() error {
		index, err := p.at.index()
		if err != nil {
			return err
		}
		l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: p.kind})
		if err == nil {
			attached = append(attached, l.Close)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("attach %s (tcx, Linux 6.6): %w", p.name, err)
	}
	return attached, err
}

// closers are closed in reverse order.
type closers []func() error

func (c closers) close() error {
	var err error
	for i := len(c) - 1; i >= 0; i-- {
		err = errors.Join(err, c[i]())
	}
	return err
}

func (c closers) cpuTime() time.Duration { return 0 }
func (c closers) stop() (account, error) { return account{}, c.close() }

// agents runs Pillion itself, as a user would: one process at each end.
type agents struct {
	binary string
	every  int
	// source has additional arguments of the source.
	source []string
	// keyed marks carry tags.
	keyed bool
	// idle: the source is to mark nothing, what is timed is how it finds that out; there is
	// no destination.
	idle bool
}

type runningAgents struct {
	idle                bool
	keys                string // folder of the key file; empty if there is none
	source, destination *process
}

// start starts the destination first and the source last, as a session does.
func (a agents) start(ctx context.Context, t *testbed) (running, error) {
	const ready = `"ready"` // a key of a line of JSON
	r := runningAgents{idle: a.idle}
	var err error
	var key []string
	if a.keyed {
		if r.keys, err = os.MkdirTemp("", "pillion-bench-"); err != nil {
			return nil, err
		}
		key = []string{"--key-file", filepath.Join(r.keys, "key")}
		if err := os.WriteFile(key[1], []byte("000102030405060708090a0b0c0d0e0f\n"), 0o600); err != nil {
			return nil, errors.Join(err, os.RemoveAll(r.keys))
		}
	}
	if !a.idle {
		r.destination, err = startProcess(ctx, t.destination.namespace, ready,
			a.binary, append([]string{"destination", "--dev", t.destination.device, "--json"}, key...)...)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(r.keys))
		}
	}
	r.source, err = startProcess(ctx, t.source.namespace, ready, a.binary, append([]string{
		"source", "--dev", t.source.device, "--path-validation", "off",
		"--every", strconv.Itoa(a.every), "--lease", "0", "--json"}, slices.Concat(a.source, key)...)...)
	if err != nil {
		_, stopErr := r.destination.stop()
		return nil, errors.Join(err, stopErr, os.RemoveAll(r.keys))
	}
	return r, nil
}

func (r runningAgents) cpuTime() time.Duration { return r.source.cpuTime() + r.destination.cpuTime() }

// stop returns an error if the treatment did not have the effect that it is to have: one
// without effect would yield a good ratio.
func (r runningAgents) stop() (account, error) {
	source, sourceErr := r.source.stop()
	destination, destinationErr := r.destination.stop()
	a := account{Marked: number(source, "marked") + number(source, "counted"), Accepted: number(destination, "packets")}
	if err := errors.Join(sourceErr, destinationErr, os.RemoveAll(r.keys)); err != nil {
		return a, err
	}
	switch {
	case r.idle && number(source, "marked") > 0:
		return a, fmt.Errorf("run %s: it marked packets, and was to mark none: summary %v", r.source, source)
	case !r.idle && a.Marked == 0:
		return a, fmt.Errorf("run %s: it marked no packet: summary %v", r.source, source)
	case !r.idle && a.Accepted == 0:
		return a, fmt.Errorf("run %s: it accepted no mark: summary %v", r.destination, destination)
	}
	return a, nil
}

func number(object map[string]any, key string) float64 {
	value, _ := object[key].(float64)
	return value
}

// checkBare fails if a program is attached to the pair: a slower native arm would make
// every ratio look good.
func checkBare(t *testbed) error {
	attached, err := attachedPrograms(t)
	if err != nil {
		return err
	}
	if len(attached) > 0 {
		return fmt.Errorf("expect no programs on the pair: program %d is attached", attached[0])
	}
	for _, s := range []side{t.source, t.destination} {
		err := netns.Do(s.namespace, func() error {
			return errors.Join(checkNoFilter(s), checkNoCapture())
		})
		if err != nil {
			return fmt.Errorf("expect nothing on %s in %s: %w", s.device, s.namespace, err)
		}
	}
	return nil
}

// attachedPrograms lists the programs at the hooks of the pair. A kernel without tcx has none.
func attachedPrograms(t *testbed) ([]ebpf.ProgramID, error) {
	var ids []ebpf.ProgramID
	for _, s := range []side{t.source, t.destination} {
		err := netns.Do(s.namespace, func() error {
			index, err := s.index()
			if err != nil {
				return err
			}
			for _, kind := range []ebpf.AttachType{ebpf.AttachTCXEgress, ebpf.AttachTCXIngress} {
				found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: kind})
				if err != nil {
					continue
				}
				for _, p := range found.Programs {
					ids = append(ids, p.ID)
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list programs on %s in %s: %w", s.device, s.namespace, err)
		}
	}
	return ids, nil
}

// checkNoFilter looks for clsact filters, which older kernels have instead of
// tcx, and for XDP, which cannot be queried by device. Call it in the namespace.
func checkNoFilter(s side) error {
	for _, hook := range []string{"egress", "ingress"} {
		output, err := run("tc", "filter", "show", "dev", s.device, hook)
		if err == nil && strings.TrimSpace(output) != "" {
			return fmt.Errorf("a filter is attached at %s: %s", hook, strings.TrimSpace(output))
		}
	}
	output, err := run("ip", "link", "show", s.device)
	if err == nil && strings.Contains(output, "prog/xdp") {
		return errors.New("an XDP program is attached")
	}
	return err
}

// checkNoCapture looks for packet sockets. Call it in the namespace.
func checkNoCapture() error {
	text, err := os.ReadFile("/proc/thread-self/net/packet")
	if err != nil {
		return fmt.Errorf("list packet sockets: %w", err)
	}
	if sockets := strings.Count(string(text), "\n") - 1; sockets > 0 { // the first line is a heading
		return fmt.Errorf("packet sockets are open: %d", sockets)
	}
	return nil
}
