package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/internal/test/hang"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

// endChain attaches a program that ends the chain ahead of all others.
func (h *host) endChain(device string, at ebpf.AttachType) (attached link.Link) {
	h.t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "neighbour", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	defer program.Close()
	if err := netns.Do(h.namespace, func() error {
		l, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		attached, err = link.AttachTCX(link.TCXOptions{Interface: l.Attrs().Index, Attach: at, Program: program, Anchor: link.Head()})
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { attached.Close() })
	return attached
}

// TestHiddenProgram: a task says which program keeps packets from its own, until that is gone.
func TestHiddenProgram(t *testing.T) {
	r := newRoad(t)
	if err := hook.HaveTCX(); err != nil {
		t.Skipf("needs tcx, Linux 6.6: %v", err)
	}
	from, to := newHost(t, r, r.from), newHost(t, r, r.to)
	check := func(h *host) session.TaskState {
		t.Helper()
		h.ahead.Add(int64(time.Second))
		r.send(20)
		var states []session.TaskState
		if err := netns.Do(h.namespace, func() error { states = h.States(); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(states) != 1 || !states[0].Running {
			t.Fatalf("%+v", states)
		}
		return states[0]
	}
	if state := to.apply(session.Assignment{Revision: 1, Destinations: []session.DestinationTask{task("s", false, time.Hour)}}); !state.Running {
		t.Fatalf("%+v", state)
	}
	if state := from.apply(session.Assignment{Revision: 1, Sources: []session.SourceTask{{
		Session: "s", Peers: []session.Peer{{Agent: "b", Addresses: []string{destinationAddress}}},
		Modules: []string{"loss"}, Encoding: "udp", Family: "any", Lease: session.Duration(time.Hour),
	}}}); !state.Running {
		t.Fatalf("%+v", state)
	}
	for _, row := range []struct {
		h      *host
		device string
		at     ebpf.AttachType
	}{{from, "out", ebpf.AttachTCXEgress}, {to, "in", ebpf.AttachTCXIngress}} {
		for range 3 {
			if state := check(row.h); state.Limit != "" {
				t.Fatalf("before: %+v", state)
			}
		}
		if row.h == to { // marks that nobody removes would not arrive at the application
			from.Pulse(session.Pulse{})
		}
		neighbour := row.h.endChain(row.device, row.at)
		var state session.TaskState
		for range 4 {
			state = check(row.h)
		}
		if !strings.HasPrefix(state.Limit, "hidden by neighbour (") || !strings.HasSuffix(state.Limit, "): packets on "+row.device+" do not reach Pillion's program, which runs after it") {
			t.Errorf("device %s: limit %q", row.device, state.Limit)
		}
		if err := neighbour.Close(); err != nil {
			t.Fatal(err)
		}
		if state = check(row.h); state.Limit != "" {
			t.Errorf("device %s, after it has gone: %+v", row.device, state)
		}
	}
}

// TestHiddenByXDP: a program of XDP that takes all packets, or most of them, away from a destination at TC is named.
func TestHiddenByXDP(t *testing.T) {
	for _, row := range []struct {
		name  string
		takes asm.Instructions
	}{
		{"all", asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}}, // XDP_DROP
		{"7 of 8", asm.Instructions{
			asm.FnGetPrandomU32.Call(), asm.And.Imm(asm.R0, 7), asm.JEq.Imm(asm.R0, 0, "pass"), asm.Mov.Imm(asm.R0, 1), asm.Return(),
			asm.Mov.Imm(asm.R0, 2).WithSymbol("pass"), asm.Return(),
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRoad(t)
			to := newHost(t, r, r.to)
			if state := to.apply(session.Assignment{Revision: 1, Destinations: []session.DestinationTask{task("s", false, time.Hour)}}); !state.Running {
				t.Fatalf("%+v", state)
			}
			r.send(1) // resolves the address
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "balancer", Type: ebpf.XDP, License: "GPL", Instructions: row.takes})
			if err != nil {
				t.Fatal(err)
			}
			defer program.Close()
			if err := netns.Do(r.to, func() error {
				l, err := netlink.LinkByName("in")
				if err != nil {
					return err
				}
				return netlink.LinkSetXdpFdWithFlags(l, program.FD(), unix.XDP_FLAGS_DRV_MODE)
			}); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(hang.Limit); ; {
				for range 400 {
					if _, err := r.out.Write(make([]byte, 40)); err != nil {
						t.Fatal(err)
					}
				}
				to.ahead.Add(int64(time.Second))
				var states []session.TaskState
				if err := netns.Do(r.to, func() error { states = to.States(); return nil }); err != nil {
					t.Fatal(err)
				}
				if len(states) != 1 || !states[0].Running {
					t.Fatalf("%+v", states)
				}
				if strings.HasPrefix(states[0].Limit, "hidden by balancer (") {
					return
				}
				if time.Now().After(end) {
					t.Fatalf("%+v", states)
				}
			}
		})
	}
}
