package lab_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
)

// stockRouters is a path of three routers that know nothing but the kernel's own IOAM.
const stockRouters = `
hosts:
  a: {}
  r1: {forward: true, ioam: 0x101}
  r2: {forward: true, ioam: 0x102}
  r3: {forward: true, ioam: 0x103}
  b: {}
links:
  - {ends: [a, r1]}
  - {ends: [r1, r2]}
  - {ends: [r2, r3], emulate: {delay: 3ms}}
  - {ends: [r3, b]}
`

// A trace of nodes with 12 bytes each in a Hop-by-Hop Options header: hop limit and
// identifier, seconds, subseconds (RFC 9197 section 4.4, RFC 9486).
const (
	traceFrom   = 4 // of the option, which has to begin at a multiple of 4
	traceNodes  = traceFrom + 12
	traceNode   = 12
	traceRemain = traceFrom + 7 // its lower 7 bits: the words that are left
)

// traceHeader has room for a number of nodes.
func traceHeader(nodes int) []byte {
	size := (traceNodes + nodes*traceNode + 7) / 8 * 8
	header := make([]byte, size)
	header[1] = byte(size/8 - 1)
	copy(header[2:], []byte{1, 0})                                           // PadN
	copy(header[traceFrom:], []byte{0x31, byte(10 + nodes*traceNode), 0, 0}) // pre-allocated trace
	binary.BigEndian.PutUint16(header[traceFrom+6:], uint16(3<<11|3*nodes))
	copy(header[traceFrom+8:], []byte{0xb0, 0, 0, 0})
	if rest := size - traceNodes - nodes*traceNode; rest >= 2 {
		copy(header[size-rest:], []byte{1, byte(rest - 2)})
	}
	return header
}

// TestStockRoutersFillTraces: hosts with the key ioam write into the trace of a packet that
// a program of its own has sent, in the order of the path and in time.
func TestStockRoutersFillTraces(t *testing.T) {
	t.Parallel()
	b := up(t, stockRouters)
	var from, to *net.UDPConn
	address := netip.MustParseAddrPort("[fd77:0:0:4::2]:7777")
	b.do("b", func() (err error) {
		if to, err = net.ListenUDP("udp6", net.UDPAddrFromAddrPort(address)); err != nil {
			return err
		}
		return setOption(to, func(fd int) error {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPOPTS, 1)
		})
	})
	defer to.Close()
	b.do("a", func() (err error) {
		if from, err = net.DialUDP("udp6", nil, net.UDPAddrFromAddrPort(address)); err != nil {
			return err
		}
		return setOption(from, func(fd int) error {
			return unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, string(traceHeader(4)))
		})
	})
	defer from.Close()
	before := time.Now()
	if _, err := from.Write([]byte("pillion!")); err != nil {
		t.Fatal(err)
	}
	data, control := make([]byte, 100), make([]byte, 500)
	_ = to.SetReadDeadline(time.Now().Add(hang.Limit))
	n, controls, _, _, err := to.ReadMsgUDP(data, control)
	after := time.Now()
	if err != nil || string(data[:n]) != "pillion!" {
		t.Fatalf("received %q: %v", data[:n], err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil || len(messages) != 1 || messages[0].Header.Type != unix.IPV6_HOPOPTS {
		t.Fatalf("control messages are %+v: %v", messages, err)
	}
	header := messages[0].Data
	if remaining := header[traceRemain] & 0x7f; remaining != 3 || header[traceFrom+6]&7 != 0 {
		t.Errorf("remaining length is %d words, want 3; flags are in % x", remaining, header[traceFrom:traceNodes])
	}
	var nodes []uint32
	var times []time.Time
	for at := traceNodes + traceNode; at < traceNodes+4*traceNode; at += traceNode {
		nodes = append(nodes, binary.BigEndian.Uint32(header[at:]))
		seconds, micros := binary.BigEndian.Uint32(header[at+4:]), binary.BigEndian.Uint32(header[at+8:])
		times = append(times, time.Unix(int64(seconds), int64(micros)*1000))
	}
	slices.Reverse(nodes) // each node writes in front of the one before it
	slices.Reverse(times)
	if want := []uint32{0x3f000101, 0x3e000102, 0x3d000103}; !slices.Equal(nodes, want) {
		t.Errorf("hop limits and nodes are %#x, want %#x", nodes, want)
	}
	if times[0].Before(before.Truncate(time.Microsecond)) || times[2].After(after) ||
		times[1].Before(times[0]) || times[2].Sub(times[1]) < 3*time.Millisecond-time.Microsecond {
		t.Errorf("sent %v, nodes %v, received %v", before, times, after)
	}
}

// setOption sets an option of a connection's socket.
func setOption(connection *net.UDPConn, set func(fd int) error) error {
	raw, err := connection.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = set(int(fd)) }); err != nil {
		return err
	}
	return failed
}
