//go:build long

package lab_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// standards are the encodings that others have, too, and the type of the extension header of each.
var standards = map[string]int32{
	"pdm": unix.IPPROTO_DSTOPTS, "ioam-e2e": unix.IPPROTO_DSTOPTS, "altmark": unix.IPPROTO_DSTOPTS, "ioam-trace": unix.IPPROTO_HOPOPTS,
}

// unsegmented has the connections of a leave as packets by a device, since most standards do not mark buffers.
func (b *bed) unsegmented(device string) {
	b.t.Helper()
	b.do("a", func() error {
		device, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return netlink.LinkSetGSOMaxSegs(device, 1)
	})
}

// TestLongStandardsUnderFaults: whatever happens to programs, devices and paths, applications get every byte once,
// in order, and what is marked and arrives is counted.
func TestLongStandardsUnderFaults(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, encoding string){
		"source killed": sourceKilled, "destination killed": destinationKilled, "offloads off": offloadsOff,
		"sizes around the MTU, fragments": sizesAroundMTU, "tun": throughTUN, "headers dropped on the way": headersDropped,
		"VLAN": throughVLAN, "addresses translated": addressesTranslated, "lease ended": leaseEnded,
	} {
		for encoding := range standards {
			t.Run(fmt.Sprint(name, ", ", encoding), func(t *testing.T) {
				t.Parallel() // it mostly waits
				run(t, encoding)
			})
		}
	}
}

// arrive checks that all marked packets of both probes arrived, and were marked at all.
func arrive(t *testing.T, s, d *runningProbe, least uint64) {
	t.Helper()
	marked, read := both(s, d)
	if marked.Marked < least || read.Packets != marked.Marked || read.Lost+read.Duplicated+read.Rejected+read.Unrestored != 0 {
		t.Errorf("marked %d, at least %d expected; read %+v", marked.Marked, least, read)
	}
}

func sourceKilled(t *testing.T, encoding string) {
	b := up(t, slowPair)
	b.unsegmented("b")
	d := b.probe("b", "destination", "a", "--interval", "50ms")
	s := b.probe("a", "source", "b", "--encoding", encoding)
	x := b.carry("a", "b", secondIPv6, 40<<20)
	x.midway()
	s.end(unix.SIGKILL)
	x.finish()
	var read destinationSummary
	d.finish(&read)
	if read.Packets == 0 || read.Unmarked == 0 || read.Rejected+read.Unrestored != 0 {
		t.Errorf("want marked packets, then unmarked ones: %+v", read)
	}
}

func destinationKilled(t *testing.T, encoding string) {
	b := up(t, slowPair)
	b.unsegmented("b")
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b", "--encoding", encoding)
	x := b.carry("a", "b", secondIPv6, 40<<20)
	x.midway()
	d.end(unix.SIGKILL)
	x.midway()
	d = b.probe("b", "destination", "a")
	x.finish()
	b.carry("a", "b", secondIPv6, 1<<20).finish()
	marked, read := both(s, d)
	if read.Packets == 0 || read.Lost+read.Rejected+read.Unrestored != 0 || marked.Marked <= read.Packets {
		t.Errorf("successor: marked %+v, read %+v", marked, read)
	}
}

func offloadsOff(t *testing.T, encoding string) {
	b := up(t, pair)
	b.unsegmented("b")
	b.offload("a", "b", "tx off rx off")
	b.offload("b", "a", "gro off tx off rx off")
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b", "--encoding", encoding)
	b.carry("a", "b", secondIPv6, 4<<20).finish()
	b.datagrams("a", "b", secondIPv6, 100, 1000)
	arrive(t, s, d, 2000)
}

func sizesAroundMTU(t *testing.T, encoding string) {
	b := up(t, pair)
	d := b.probe("b", "destination", "a")
	s := b.probe("a", "source", "b", "--encoding", encoding)
	const full = 1500 - 40 - 8
	for size := full - 160; size <= full+2; size++ { // with and without room for the mark; then fragments
		b.datagrams("a", "b", secondIPv6, 1, size)
	}
	b.datagrams("a", "b", secondIPv6, 10, 4000)
	arrive(t, s, d, 10)
}

func throughTUN(t *testing.T, encoding string) {
	b := up(t, "hosts: {a: {}, b: {}}\nlinks: []\n")
	near := b.tun("a", "tun0", "10.77.1.1/24", "fd77:0:0:1::1/64")
	far := b.tun("b", "tun0", "10.77.1.2/24", "fd77:0:0:1::2/64")
	go join(near, far)
	go join(far, near)
	d := b.probe("b", "destination", "tun0")
	s := b.probe("a", "source", "tun0", "--encoding", encoding)
	b.carry("a", "b", secondIPv6, 2<<20).finish()
	b.datagrams("a", "b", secondIPv6, 100, 1000)
	arrive(t, s, d, 100)
}

func headersDropped(t *testing.T, encoding string) {
	b := up(t, pair)
	d := b.probe("b", "destination", "a", "--interval", "50ms")
	b.insert("b", "a", extensionBox(standards[encoding])) // before it
	s := b.probe("a", "source", "b", validated, "--encoding", encoding)
	flow := b.open("a", "b", netip.AddrPortFrom(secondIPv6, 9000))
	sent := flow.used(s, encoding, "failed")
	flow.send(100, 32000)
	flow.receive(sent + 100)
	arrive(t, s, d, 0)
}

// throughVLAN: frames have a tag of IEEE 802.1Q with a priority, which programs of both hooks have to pass over.
func throughVLAN(t *testing.T, encoding string) {
	for _, at := range []string{"tc", "xdp"} {
		b := up(t, pair)
		b.unsegmented("b")
		b.offload("a", "b", "txvlan off") // or the tag is not in the frame
		d := b.probe("b", "destination", "a", "--hook", at)
		s := b.probe("a", "source", "b", "--encoding", encoding)
		b.attach("a", "b", ebpf.AttachTCXEgress, link.Tail(), "vlan", asm.Instructions{
			asm.Mov.Imm(asm.R2, 0x0081), // 0x8100 in network byte order
			asm.Mov.Imm(asm.R3, 5<<13),  // priority 5, VLAN 0
			asm.FnSkbVlanPush.Call(),
			asm.Mov.Imm(asm.R0, -1), // TCX_NEXT
			asm.Return(),
		})
		tagged := b.tags("b", "a")
		b.carry("a", "b", secondIPv6, 2<<20).finish()
		b.datagrams("a", "b", secondIPv6, 100, 1000)
		if n := tagged(); n < 1000 {
			t.Errorf("%d frames have a tag", n)
		}
		arrive(t, s, d, 1000)
	}
}

// tags counts the packets with an IEEE 802.1Q tag that come to a device.
func (b *bed) tags(host, device string) func() uint64 {
	b.t.Helper()
	b.exec(host, "nft", "table netdev tags {\n\tchain arrive {\n\t\ttype filter hook ingress device "+device+" priority 0;\n\t\tvlan pcp 5 counter\n\t}\n}")
	return func() (n uint64) {
		_, after, _ := strings.Cut(b.exec(host, "nft", "list", "ruleset"), "counter packets ")
		fmt.Sscan(after, &n)
		return n
	}
}

// addressesTranslated: marks without a tag survive a router that translates addresses; their transport is not in them.
func addressesTranslated(t *testing.T, encoding string) {
	b := up(t, routed)
	b.unsegmented("r")
	b.exec("r", "nft", translation)
	to := netip.MustParseAddr("fd77:0:0:2::2")
	d := b.probe("b", "destination", "r")
	s := b.probe("a", "source", "r", "--encoding", encoding)
	b.datagrams("a", "b", to, 500, 700)
	b.carry("a", "b", to, 4<<20).finish()
	if count := b.invalid("r"); count != "0" {
		t.Errorf("%s packets are invalid", count)
	}
	arrive(t, s, d, 2000)
}

// leaseEnded: a source whose process hangs marks until its lease ends, and again once it runs.
func leaseEnded(t *testing.T, encoding string) {
	b := up(t, pair)
	b.unsegmented("b")
	d := b.probe("b", "destination", "a", "--interval", "50ms")
	s := b.probe("a", "source", "b", "--encoding", encoding, "--lease", "1s")
	x := b.drip("a", "b", secondIPv6)
	grows := func() bool {
		before := d.seen().Packets
		time.Sleep(500 * time.Millisecond)
		return d.seen().Packets > before
	}
	eventually(t, "packets to be marked", grows)
	_ = s.command.Process.Signal(unix.SIGSTOP)
	eventually(t, "the lease to end", func() bool { return !grows() })
	_ = s.command.Process.Signal(unix.SIGCONT)
	eventually(t, "packets to be marked again", grows)
	x.finish()
	t.Logf("longest pause %v", time.Duration(x.pause.Load()))
	marked, read := both(s, d)
	if marked.Skipped["no_lease"] == 0 || read.Packets != marked.Marked || read.Lost+read.Duplicated+read.Rejected+read.Unrestored != 0 {
		t.Errorf("marked %+v, read %+v", marked, read)
	}
}
