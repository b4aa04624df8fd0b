package lab_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/lab/emulator"
	"pillion.dev/wire"
	"pillion.dev/wire/test/codec"
)

// attacked has a and b behind a router, at which an attacker is connected, too: what it sends
// with the address of a arrives on the interface on which b reads marks of a.
const attacked = `
hosts: {a: {}, r: {forward: true}, b: {}, c: {}, noc: {}}
links:
  - ends: [a, r]
    emulate: {seed: 3, delay: 5ms, queue: 8000, from: {a: {loss: 1%, duplicate: 0.5%, reorder: 1%}}}
  - {ends: [r, b]}
  - {ends: [c, r]}
  - {ends: [a, noc]}
  - {ends: [b, noc]}
  - {ends: [c, noc]}
service: {server: noc, agents: [a, b]}
`

// TestForgedMarks: marks with a wrong key, without a key, spoofed, malformed, and copies of
// real ones change no figure, and nothing inside them is delivered, though another session of the
// same hosts, for other packets, is without authentication.
func TestForgedMarks(t *testing.T) { forgedMarks(t, 20_000) }

// innerPort is where the packets inside forged marks go: nothing else does. Marks to openPort need no tag.
const (
	innerPort = 7777
	openPort  = 9100
)

var (
	attackedFrom = netip.MustParseAddr("10.77.1.1") // a
	attackedTo   = netip.MustParseAddr("10.77.2.2") // b
	attacker     = netip.MustParseAddr("10.77.3.1") // c
)

func forgedMarks(t *testing.T, count int) {
	b := service(t, attacked)
	ports := []uint16{9000, 9001, 9002, 9003, openPort}
	filters := []string{"--filter", fmt.Sprintf("dport=%d", innerPort)}
	for _, port := range ports[:4] {
		filters = append(filters, "--filter", fmt.Sprintf("dport=%d", port))
	}
	b.running("truth", append([]string{"--from", "a", "--to", "b", "--authentication", "on", "--trace=-1s"}, filters...)...)
	b.running("open", "--from", "a", "--to", "b", "--authentication", "off", "--trace=-1s", "--filter", fmt.Sprintf("dport=%d", openPort))
	delivered := b.countInner()
	streams := make([]*stream, len(ports))
	for i := range streams {
		streams[i] = b.open("a", "b", netip.AddrPortFrom(attackedTo, ports[i]))
	}
	offered := uint64(0)
	send := func(packets int) {
		for sent := 0; sent < packets; sent += 256 {
			for _, s := range streams {
				s.send(256, 20000)
			}
			offered += 256 * uint64(len(streams))
			b.settled("a-r", "a", offered)
		}
	}
	originals := b.overhear(func() { send(2048) })
	send(2048) // so far behind that copies are no duplicates
	var attack sync.WaitGroup
	arrived := b.fence()
	attack.Go(func() { b.forge(originals, count, arrived) })
	send(4096)
	attack.Wait()
	calm := emulator.Calm()
	if err := b.Change(t.Context(), "a-r", "a", emulator.Change{Loss: calm.Loss, Duplicate: calm.Duplicate, Reorder: calm.Reorder}); err != nil {
		t.Fatal(err)
	}
	send(256)
	all := b.settled("a-r", "a", offered)
	truth, _ := toPorts(all, ports[:4]...)
	b.agrees(truth, "session = 'truth'")
	open, _ := toPorts(all, openPort)
	b.agrees(open, "session = 'open'")
	if n := delivered.Load(); n != 0 {
		t.Errorf("%d packets inside forged marks were delivered", n)
	}
	if open.Offered == 0 || truth.Offered == 0 {
		t.Errorf("%d marks with tags, %d without", truth.Offered, open.Offered)
	}
	t.Logf("bar: %d forged marks beside %d real ones, %d of them to copy, and %d without authentication", count, truth.Offered, len(originals), open.Offered)
}

// countInner counts what arrives on b at the port of packets inside forged marks.
func (b *bed) countInner() *atomic.Int64 {
	b.t.Helper()
	var n atomic.Int64
	var socket *net.UDPConn
	b.do("b", func() (err error) {
		socket, err = net.ListenUDP("udp4", &net.UDPAddr{Port: innerPort})
		return err
	})
	b.t.Cleanup(func() { socket.Close() })
	go func() {
		for buffer := make([]byte, 2048); ; n.Add(1) {
			if _, err := socket.Read(buffer); err != nil {
				return
			}
		}
	}()
	return &n
}

// overhear returns the first marked packets that pass the router while f runs.
func (b *bed) overhear(f func()) (packets [][]byte) {
	b.t.Helper()
	socket := -1
	b.do("r", func() (err error) {
		socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, int(binary.NativeEndian.Uint16([]byte{8, 0})))
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 256<<20); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000})
	})
	defer unix.Close(socket)
	f()
	const most = 2000 // of four flows that have sent 2048 packets each
	for buffer := make([]byte, 2048); len(packets) < most; {
		n, _, err := unix.Recvfrom(socket, buffer, 0)
		if err != nil {
			break
		}
		if _, m, _, err := codec.Extract(buffer[:n], wire.Port); err == nil && m.Tagged {
			packets = append(packets, slices.Clone(buffer[:n]))
		}
	}
	if len(packets) < 500 {
		b.t.Fatalf("overheard %d marked packets", len(packets))
	}
	return packets
}

// forge sends forged marks from the attacker, and calls arrived now and then.
func (b *bed) forge(originals [][]byte, count int, arrived func()) {
	socket := -1
	err := b.Do("c", func() (err error) {
		socket, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		return err
	})
	if err != nil {
		b.t.Error(err)
		return
	}
	defer unix.Close(socket)
	random := rand.New(rand.NewPCG(1, 1))
	to := &unix.SockaddrInet4{Addr: attackedTo.As4()}
	for n := range count {
		if n%fenceEvery == 0 {
			arrived()
		}
		packet := forgeries[n%len(forgeries)](random, originals)
		if err := unix.Sendto(socket, packet, 0, to); err != nil && err != unix.ENOBUFS {
			b.t.Errorf("send forged mark: %v", err)
			return
		}
	}
}

// fenceEvery is how many forged packets are on their way at once. The kernel's queues hold
// 1000 packets for each processor: more would push out real ones, which no link accounts for.
const fenceEvery = 200

// fence returns a function that waits until b has what c has sent so far.
func (b *bed) fence() func() {
	b.t.Helper()
	var from, to *net.UDPConn
	b.do("b", func() (err error) {
		to, err = net.ListenUDP("udp4", &net.UDPAddr{Port: innerPort + 1})
		return err
	})
	b.do("c", func() (err error) {
		from, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: attackedTo.AsSlice(), Port: innerPort + 1})
		return err
	})
	b.t.Cleanup(func() { from.Close(); to.Close() })
	number := uint64(0)
	return func() {
		number++
		for seen := uint64(0); seen != number; {
			message := binary.BigEndian.AppendUint64(nil, number)
			if _, err := from.Write(message); err != nil {
				b.t.Errorf("send fence: %v", err)
				return
			}
			_ = to.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := to.Read(message); err == nil {
				seen = binary.BigEndian.Uint64(message)
			}
			if b.t.Context().Err() != nil {
				return
			}
		}
	}
}

// forgeries make packets that would change figures, or be taken apart, if they were believed.
var forgeries = []func(*rand.Rand, [][]byte) []byte{
	func(r *rand.Rand, originals [][]byte) []byte { return originals[r.IntN(len(originals))] }, // replayed
	func(r *rand.Rand, originals [][]byte) []byte { // wrong tag in a flow that exists
		return remark(r, originals, wire.UDPOption, func(m *codec.Mark) { m.Tag = r.Uint32() })
	},
	func(r *rand.Rand, originals [][]byte) []byte { // next number of a flow, without a tag
		return remark(r, originals, wire.UDPOption, func(m *codec.Mark) { m.Tagged, m.Tag, m.Sequence = false, 0, m.Sequence+1 })
	},
	func(r *rand.Rand, originals [][]byte) []byte { // the tag of another number
		return remark(r, originals, wire.UDPOption, func(m *codec.Mark) { m.Sequence += 1 << 16 })
	},
	func(r *rand.Rand, _ [][]byte) []byte { return inner(r, attackedFrom, wire.Shim, true) },
	func(r *rand.Rand, _ [][]byte) []byte { return inner(r, attackedFrom, wire.IPIP, true) },
	func(r *rand.Rand, _ [][]byte) []byte { return inner(r, attackedFrom, wire.UDP, true) },
	func(r *rand.Rand, _ [][]byte) []byte { return inner(r, attackedFrom, wire.UDP, false) },
	func(r *rand.Rand, _ [][]byte) []byte { return inner(r, attacker, wire.UDP, true) }, // no peer
	func(r *rand.Rand, _ [][]byte) []byte { // malformed: the length of the shim
		packet := inner(r, attackedFrom, wire.UDP, true)
		packet[30] ^= byte(1 + r.IntN(255))
		return packet
	},
}

// remark writes another mark into a packet that was overheard.
func remark(r *rand.Rand, originals [][]byte, e wire.Encoding, change func(*codec.Mark)) []byte {
	packet, m, _, err := codec.Extract(originals[r.IntN(len(originals))], wire.Port)
	if err != nil {
		panic(err) // it was extracted before
	}
	change(&m)
	return must(codec.Insert(packet, e, m, wire.Port))
}

// inner is a datagram to the port that counts, with a mark.
func inner(r *rand.Rand, from netip.Addr, e wire.Encoding, tagged bool) []byte {
	source, destination := from.As4(), attackedTo.As4()
	b := []byte{0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0}
	b = append(append(b, source[:]...), destination[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(1024+r.IntN(60000)))
	b = binary.BigEndian.AppendUint16(b, innerPort)
	b = append(b, 0, 16, 0, 0, 'f', 'o', 'r', 'g', 'e', 'd', '!', '!')
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum+sum>>16))
	m := codec.Mark{Modules: wire.Loss, Sequence: r.Uint32() & wire.SequenceMask, Single: true, Tagged: tagged}
	if tagged {
		m.Tag = r.Uint32()
	}
	return must(codec.Insert(b, e, m, wire.Port))
}

func must(packet []byte, err error) []byte {
	if err != nil {
		panic(err) // the packet is the test's own
	}
	return packet
}
