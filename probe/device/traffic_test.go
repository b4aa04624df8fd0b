package device

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
)

// patience is how long traffic may take on a busy machine.
const patience = hang.Limit

// content of the n-th datagram: its number, then bytes that follow from it.
func content(n, size int) []byte {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), 1}).Read(b)
	binary.BigEndian.PutUint32(b, uint32(n))
	return b
}

// datagramSize is that of the n-th datagram: most are of one size, some are shorter.
func datagramSize(n, size int) int {
	if n%8 == 7 {
		return size / 2
	}
	return size
}

// flow is a pair of UDP sockets.
type flow struct {
	t       testing.TB
	out, in *net.UDPConn
	merges  bool
}

// open opens sockets at two hosts; one that merges accepts several datagrams in a buffer
// (UDP_GRO).
func open(from, to host, address netip.Addr, merges bool) *flow {
	from.t.Helper()
	f := &flow{t: from.t, merges: merges}
	to.do(func() (err error) {
		if f.in, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, 0))); err != nil {
			return err
		}
		return f.in.SetReadBuffer(4 << 20)
	})
	from.do(func() (err error) {
		f.out, err = net.DialUDP("udp", nil, f.in.LocalAddr().(*net.UDPAddr))
		return err
	})
	if merges {
		f.option(f.in, unix.UDP_GRO, 1)
	}
	return f
}

func (f *flow) close() {
	f.in.Close()
	f.out.Close()
}

func (f *flow) option(socket *net.UDPConn, name, value int) {
	f.t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		f.t.Fatal(err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_UDP, name, value) })
	if err := errors.Join(err, failed); err != nil {
		f.t.Fatal(err)
	}
}

// datagrams sends count datagrams and expects every byte of each.
func (f *flow) datagrams(count, size int) {
	f.t.Helper()
	got := map[int]bool{}
	for n := range count {
		if _, err := f.out.Write(content(n, datagramSize(n, size))); err != nil {
			f.t.Fatalf("send datagram %d: %v", n, err)
		}
		f.receive(got, n+1, size)
	}
}

// bursts sends count datagrams in segmentation buffers of eight, the last of which is
// shorter, and expects every byte of each.
func (f *flow) bursts(count, size int) {
	f.t.Helper()
	f.option(f.out, unix.UDP_SEGMENT, size)
	got := map[int]bool{}
	for n := 0; n < count; n += 8 {
		var buffer []byte
		for i := n; i < n+8; i++ {
			buffer = append(buffer, content(i, datagramSize(i, size))...)
		}
		if _, err := f.out.Write(buffer); err != nil {
			f.t.Fatalf("send burst %d: %v", n, err)
		}
		f.receive(got, n+8, size)
	}
}

// receive reads until all datagrams before a number have arrived.
func (f *flow) receive(got map[int]bool, before, size int) {
	f.t.Helper()
	buffer, extra := make([]byte, 1<<16), make([]byte, 64)
	for len(got) < before {
		_ = f.in.SetReadDeadline(time.Now().Add(patience))
		length, n, _, _, err := f.in.ReadMsgUDP(buffer, extra)
		if err != nil {
			f.t.Fatalf("receive datagram %d of %d bytes, merged %v: %v", len(got), size, f.merges, err)
		}
		step := f.step(extra[:n], length)
		for at := 0; at < length; at += step {
			f.check(got, buffer[at:min(at+step, length)], size)
		}
	}
}

func (f *flow) check(got map[int]bool, b []byte, size int) {
	f.t.Helper()
	if len(b) < 4 {
		f.t.Fatalf("received %d bytes", len(b))
	}
	n := int(binary.BigEndian.Uint32(b))
	if got[n] || n > 1<<15 || !bytes.Equal(b, content(n, datagramSize(n, size))) {
		f.t.Fatalf("received %d other bytes than those of datagram %d, received before %v", len(b), n, got[n])
	}
	got[n] = true
}

// step is the size of the datagrams in a buffer.
func (f *flow) step(extra []byte, length int) int {
	f.t.Helper()
	messages, err := unix.ParseSocketControlMessage(extra)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_UDP && m.Header.Type == unix.UDP_GRO {
			return int(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return max(length, 1)
}

// transfer moves bytes over a TCP connection and expects them unchanged.
func transfer(from, to host, address netip.Addr, size int64) {
	t := from.t
	t.Helper()
	var listener net.Listener
	to.do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
		return err
	})
	defer listener.Close()
	received := make(chan error, 1)
	go func() { received <- receiveStream(listener, size) }()
	var out net.Conn
	from.do(func() (err error) {
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		out, err = new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
		return err
	})
	_ = out.SetDeadline(time.Now().Add(patience))
	_, err := io.Copy(out, stream(size))
	if err := errors.Join(err, out.Close(), <-received); err != nil {
		t.Fatal(err)
	}
}

// stream are the bytes of a transfer.
func stream(size int64) io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{7}), size) }

func receiveStream(listener net.Listener, size int64) error {
	in, err := listener.Accept()
	if err != nil {
		return err
	}
	defer in.Close()
	_ = in.SetDeadline(time.Now().Add(patience))
	want, got := stream(size), bufferOf(1<<16)
	var total int64
	for {
		n, err := in.Read(got)
		expected := bufferOf(n)
		if _, failed := io.ReadFull(want, expected); failed != nil && n != 0 || !bytes.Equal(got[:n], expected) {
			return fmt.Errorf("received other bytes than were sent, after %d", total)
		}
		total += int64(n)
		if err == io.EOF && total == size {
			return nil
		}
		if err != nil {
			return fmt.Errorf("received %d of %d bytes: %w", total, size, err)
		}
	}
}

func bufferOf(n int) []byte { return make([]byte, n) }
