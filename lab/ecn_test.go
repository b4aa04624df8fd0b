package lab_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
)

// ECN fields (RFC 3168).
const (
	capable    = 2 // ECT(0)
	experience = 3 // CE
)

// TestCongestionMarksReachTheReceiver: packets that a router marks CE arrive as CE, in
// every encoding.
func TestCongestionMarksReachTheReceiver(t *testing.T) {
	t.Parallel() // it mostly waits
	b := up(t, `
hosts: {a: {}, b: {}, r: {forward: true}}
links:
  - {ends: [a, r]}
  - {ends: [b, r]}
`)
	b.congested("r", "b")
	const count = 200
	for _, encoding := range []string{"native", "udp", "ipip", "shim"} {
		to := netip.MustParseAddr("10.77.2.1")
		if encoding == "native" {
			to = netip.MustParseAddr("fd77:0:0:2::1")
		}
		t.Run(encoding, func(t *testing.T) {
			d := b.probe("b", "destination", "r")
			s := b.probe("a", "source", "r", "--encoding", encoding, "--filter", fmt.Sprintf("proto=udp dst=%v", to))
			flow := b.open("a", "b", netip.AddrPortFrom(to, 0))
			setECN(t, flow.out, to, capable)
			flow.send(count, 5000)
			if got := countECN(t, flow.in, to, count); got[experience] != count {
				t.Errorf("packets by ECN field: %v, want %d with CE", got, count)
			}
			if marked, read := both(s, d); marked.Marked != count || read.Packets != count || read.Unrestored != 0 {
				t.Errorf("source %+v, destination %+v", marked, read)
			}
		})
	}
}

// congested makes a host set CE in each ECN-capable packet that leaves a device.
func (b *bed) congested(host, device string) {
	b.t.Helper()
	const next = -1
	b.attach(host, device, ebpf.AttachTCXEgress, nil, "congested",
		asm.Instructions{asm.FnSkbEcnSetCe.Call(), asm.Mov.Imm(asm.R0, next), asm.Return()})
}

// control calls f with the descriptor of a socket.
func control(t *testing.T, socket *net.UDPConn, f func(fd int) error) {
	t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

func setECN(t *testing.T, socket *net.UDPConn, to netip.Addr, ecn int) {
	t.Helper()
	control(t, socket, func(fd int) error {
		if to.Is4() {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, ecn)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, ecn)
	})
}

// countECN receives count packets and returns how many arrived with each ECN field.
func countECN(t *testing.T, socket *net.UDPConn, to netip.Addr, count int) map[byte]int {
	t.Helper()
	control(t, socket, func(fd int) error {
		if to.Is4() {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
	})
	found := map[byte]int{}
	data, extra := make([]byte, 2048), make([]byte, 256)
	for range count {
		_ = socket.SetReadDeadline(time.Now().Add(hang.Limit))
		_, n, _, _, err := socket.ReadMsgUDP(data, extra)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := unix.ParseSocketControlMessage(extra[:n])
		if err != nil || len(messages) != 1 {
			t.Fatalf("%d control messages, %v", len(messages), err)
		}
		found[tos(messages[0].Data)&3]++
	}
	return found
}

// tos is a byte from IPv4 and an integer from IPv6.
func tos(b []byte) byte {
	if len(b) >= 4 {
		return byte(binary.NativeEndian.Uint32(b))
	}
	return b[0]
}
