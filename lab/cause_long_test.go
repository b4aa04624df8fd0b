//go:build long

package lab_test

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// twoPlainHosts are like twoHosts, with a link that loses nothing.
const twoPlainHosts = `
hosts: {a: {}, b: {}, r: {forward: true}, noc: {}}
links:
  - {ends: [a, b]}
  - {ends: [a, r]}
  - {ends: [b, r]}
  - {ends: [r, noc]}
service: {server: noc, agents: [a, b]}
`

// obstacle is what keeps a session from measuring: words and kind are those of the limit of a task on host, and
// of an event.
type obstacle struct {
	name, host, words, kind string
	raise                   func(*serviceBed) (undo func())
}

var obstacles = []obstacle{
	{"program of TC before the source", "a", "hidden by neighbour (", "program-hidden", ahead("a", "b", ebpf.AttachTCXEgress)},
	{"program of TC before the destination", "b", "hidden by neighbour (", "program-hidden", ahead("b", "a", ebpf.AttachTCXIngress)},
	{"program of XDP before the destination", "b", "hidden by balancer (", "program-hidden", func(b *serviceBed) func() { return b.takeByXDP("b", "a") }},
	{"nothing arrives", "a", "not reachable: ", "path-validation-failed", func(b *serviceBed) func() {
		dropping := b.attach("a", "b", ebpf.AttachTCXEgress, link.Tail(), "dropping", asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()})
		return func() { dropping.Close() }
	}},
	{"packets of the MTU", "a", "no room: ", "no-room", func(b *serviceBed) func() { return b.talk("a", "b", 9001, 1452) }},
}

// ahead attaches a program that ends the chain ahead of Pillion's.
func ahead(host, device string, at ebpf.AttachType) func(b *serviceBed) func() {
	return func(b *serviceBed) func() {
		attached := b.attach(host, device, at, link.Head(), "neighbour", asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()})
		return func() { attached.Close() }
	}
}

// takeByXDP attaches a program that takes all packets.
func (b *serviceBed) takeByXDP(host, device string) (undo func()) {
	b.t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "balancer", Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}})
	if err != nil {
		b.t.Fatal(err)
	}
	defer program.Close()
	set := func(fd int) {
		b.do(host, func() error {
			l, err := netlink.LinkByName(device)
			if err != nil {
				return err
			}
			return netlink.LinkSetXdpFdWithFlags(l, fd, unix.XDP_FLAGS_DRV_MODE)
		})
	}
	set(program.FD())
	return func() { set(-1) }
}

// talk sends a datagram of a size each 10 ms until end is called.
func (b *serviceBed) talk(from, to string, port uint16, bytes int) (end func()) {
	b.t.Helper()
	address := map[string]string{"a": "fd77:0:0:1::1", "b": "fd77:0:0:1::2"}
	s := b.open(from, to, netip.AddrPortFrom(netip.MustParseAddr(address[to]), port))
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticks.C:
				_, _ = s.out.Write(make([]byte, bytes)) // refused while the path is tested for its MTU
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
		s.out.Close()
		s.in.Close()
	}
}

// TestLongObstaclesAreNamed states no times: they depend on how busy the machine is.
func TestLongObstaclesAreNamed(t *testing.T) {
	obstaclesAreNamed(t, func(testing.TB, string, time.Duration) {})
}

// obstaclesAreNamed: each obstacle is said in the same words by the state of the task, an event and the doctor, and
// no longer when it is gone. Times are from the obstacle to state and event.
func obstaclesAreNamed(t *testing.T, took func(t testing.TB, what string, after time.Duration)) {
	b := service(t, strings.Replace(twoPlainHosts, "agents: [a, b]", `agents: [a, b], agent_options: ["--path-validation=auto"]`, 1))
	defer b.talk("a", "b", 9000, 64)()
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s")
	eventually(t, "packets to be marked", func() bool {
		return b.task("s", "a", "source")["marked"] > 0 && b.task("s", "b", "destination")["packets"] > 0
	})
	for _, o := range obstacles {
		t.Run(o.name, func(t *testing.T) {
			said := func(arguments ...string) string {
				output, _ := b.tryPillion(arguments...) // the doctor fails if a check does
				return output
			}
			state := func() bool { return strings.Contains(said("session", "show", "s", "-o", "json"), o.words) }
			event := func() bool {
				var events []struct{ Agent, Message string }
				if json.Unmarshal([]byte(said("events", "--kind", o.kind, "-o", "json")), &events) != nil {
					return false
				}
				return slices.ContainsFunc(events, func(e struct{ Agent, Message string }) bool {
					return e.Agent == o.host && strings.Contains(e.Message, o.words)
				})
			}
			eventually(t, "no earlier obstacle to be left", func() bool { return !state() })
			undo := o.raise(b)
			began := time.Now()
			eventually(t, "the state to say it", state)
			took(t, o.name+", in the state of its task", time.Since(began))
			eventually(t, "an event to say it", event)
			took(t, o.name+", in an event", time.Since(began))
			for _, doctor := range [][]string{{"doctor", o.host}, {"doctor", "a", "b"}} {
				eventually(t, strings.Join(doctor, " ")+" to say it", func() bool { return strings.Contains(said(append(doctor, "-o", "json")...), o.words) })
			}
			undo()
			eventually(t, "the state not to say it any more", func() bool { return !state() })
		})
	}
}
