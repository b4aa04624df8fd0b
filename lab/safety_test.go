package lab_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
	"pillion.dev/internal/netns"
)

const pair = "hosts: {a: {}, b: {}}\nlinks:\n  - ends: [a, b]\n"

// slowPair makes a transfer slow enough for an action in its middle.
const slowPair = pair + "    emulate: {rate: 200mbit, queue: 100000, delay: 1ms}\n"

// both families go to b.
var toB = map[string]netip.Addr{"ipv6": secondIPv6, "ipv4": secondIPv4}

// attached returns the names of the tcx programs on a device of a host.
func (b *bed) attached(host, device string, at ebpf.AttachType) []string {
	b.t.Helper()
	var names []string
	b.do(host, func() error {
		index, err := indexOf(device)
		if err != nil {
			return err
		}
		found, err := link.QueryPrograms(link.QueryOptions{Target: index, Attach: at})
		if err != nil {
			return err
		}
		for _, p := range found.Programs {
			program, err := ebpf.NewProgramFromID(p.ID)
			if err != nil {
				return err
			}
			info, err := program.Info()
			program.Close()
			if err != nil {
				return err
			}
			names = append(names, info.Name)
		}
		return nil
	})
	return names
}

func (b *bed) expectAttached(host, device string, at ebpf.AttachType, want string) {
	b.t.Helper()
	if got := strings.Join(b.attached(host, device, at), " "); got != want {
		b.t.Errorf("%s of %s has programs %q at %v, want %q", device, host, got, at, want)
	}
}

func TestKilledSourceStopsMarking(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, slowPair)
			d := b.probe("b", "destination", "a", "--interval", "50ms")
			s := b.probe("a", "source", "b")
			x := b.carry("a", "b", address, 40<<20)
			x.midway()
			s.end(unix.SIGKILL)
			b.expectAttached("a", "b", ebpf.AttachTCXEgress, "")
			b.expectAttached("a", "b", ebpf.AttachTCXIngress, "")
			x.finish()
			var read destinationSummary
			d.finish(&read)
			if read.Packets == 0 || read.Unmarked == 0 || read.Unrestored != 0 {
				t.Errorf("want marked packets, then unmarked ones: %+v", read)
			}
			b.expectAttached("b", "a", ebpf.AttachTCXIngress, "")
		})
	}
}

func TestKilledDestinationKeepsRestoring(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, address := range toB {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, slowPair)
			d := b.probe("b", "destination", "a")
			s := b.probe("a", "source", "b")
			x := b.carry("a", "b", address, 40<<20)
			x.midway()
			d.end(unix.SIGKILL)
			b.expectAttached("b", "a", ebpf.AttachTCXIngress, "destination_tc")
			x.midway()
			d = b.probe("b", "destination", "a")
			b.expectAttached("b", "a", ebpf.AttachTCXIngress, "destination_tc")
			x.finish()                                 // perhaps before the successor was attached
			b.carry("a", "b", address, 1<<20).finish() // after it was attached
			marked, read := both(s, d)
			if read.Packets == 0 || read.Lost != 0 || read.Unrestored != 0 || marked.Marked <= read.Packets {
				t.Errorf("successor: marked %+v, read %+v", marked, read)
			}
			b.expectAttached("b", "a", ebpf.AttachTCXIngress, "")
		})
	}
}

// A stopped process is not dead: the program stays attached, and its lease must expire.
func TestStoppedSourceLosesItsLease(t *testing.T) {
	b := up(t, pair)
	d := b.probe("b", "destination", "a", "--interval", "50ms")
	s := b.probe("a", "source", "b", "--lease", "1s")
	flow := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000))
	marking := func() bool {
		before := d.seen().Packets
		flow.send(64, 1000)
		idle := 0
		eventually(t, "rows to come or not to come", func() bool { idle++; return d.seen().Packets > before || idle > 20 })
		return d.seen().Packets > before
	}
	if !marking() {
		t.Fatal("no packets are marked")
	}
	_ = s.command.Process.Signal(unix.SIGSTOP)
	eventually(t, "marking to end with the lease", func() bool { return !marking() })
	_ = s.command.Process.Signal(unix.SIGCONT)
	eventually(t, "marking to continue", marking)
	marked, read := both(s, d)
	if marked.Skipped["no_lease"] == 0 || read.Packets != marked.Marked || read.Lost != 0 {
		t.Errorf("source %+v, destination %+v", marked, read)
	}
}

func TestOneProbeOfARoleOnADevice(t *testing.T) {
	b := up(t, pair)
	b.probe("b", "destination", "a")
	b.probe("b", "source", "a")
	for _, role := range []string{"source", "destination"} {
		stderr, code := b.failing("b", role, "--dev", "a")
		checkErrorOutput(t, stderr, code, fmt.Sprintf(`become %s of device "a": another agent has it`, role))
	}
	b.expectAttached("b", "a", ebpf.AttachTCXIngress, "destination_tc source_return")
	b.expectAttached("b", "a", ebpf.AttachTCXEgress, "source_tc")
}

// Marks that are options reach hosts without Pillion, and routers that compute checksums.
func TestNoDestination(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, encodings := range []string{"native", "udp-option", "udp-option,native"} {
		t.Run(encodings, func(t *testing.T) {
			t.Parallel() // it mostly waits
			b := up(t, chain)
			b.offload("r1", "r2", "tx off")
			s := b.probe("a", "source", "r1", "--encoding", encodings)
			for _, address := range []string{"fd77:0:0:3::2", "10.77.3.2"} {
				to := netip.MustParseAddr(address)
				b.carry("a", "b", to, 20<<20).finish()
				b.datagrams("a", "b", to, 200, 1000)
				b.datagrams("a", "b", to, 200, 9)
			}
			var marked sourceSummary
			s.finish(&marked)
			if want := map[bool]uint64{true: 400, false: 1000}[encodings == "udp-option"]; marked.Marked < want {
				t.Errorf("want at least %d packets marked: %+v", want, marked)
			}
		})
	}
}

// failing runs pillion-agent in a host and returns its standard error.
func (b *bed) failing(host string, args ...string) (stderr string, code int) {
	b.t.Helper()
	err := netns.Do(b.Namespace(host), func() error {
		_, stderr, code = agent(b.t, args...)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return stderr, code
}
