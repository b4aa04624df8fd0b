package lab_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pillion.dev/internal/test/hang"
)

// edgeOption is an IOAM edge-to-edge option: number and NTP time, in namespace 0, with padding
// in front so that it begins at a multiple of 4 behind a trace with four nodes.
func edgeOption(number uint32, at time.Time) []byte {
	option := []byte{0x11, 18, 0, 3, 0, 0, 0x70, 0}
	option = binary.BigEndian.AppendUint32(option, number)
	option = binary.BigEndian.AppendUint32(option, uint32(at.Unix()+2208988800))
	return binary.BigEndian.AppendUint32(option, uint32(uint64(at.Nanosecond())<<32/1e9))
}

// numberedHeader is traceHeader(4) with a number and the time behind the trace, as another
// implementation than ours writes it.
func numberedHeader(number uint32, at time.Time) []byte {
	header := traceHeader(4)[:traceNodes+4*traceNode]
	header = append(header, edgeOption(number, at)...)
	header = append(header, 1, 2, 0, 0) // PadN
	header[1] = byte(len(header)/8 - 1)
	return header
}

// hopControl is a control message with a Hop-by-Hop header, for the kernel to send.
func hopControl(header []byte) []byte {
	message := make([]byte, unix.CmsgSpace(len(header)))
	binary.NativeEndian.PutUint64(message, uint64(unix.CmsgLen(len(header))))
	binary.NativeEndian.PutUint32(message[8:], unix.IPPROTO_IPV6)
	binary.NativeEndian.PutUint32(message[12:], unix.IPV6_HOPOPTS)
	copy(message[unix.CmsgLen(0):], header)
	return message
}

// TestKernelHeaderIsRead: headers that the kernel of a host without Pillion writes, and stock
// routers fill in, are read and left where they are; applications get what was sent.
func TestKernelHeaderIsRead(t *testing.T) {
	b := up(t, stockRouters)
	d := b.probe("b", "destination", "r3", "--hops", "ioam", "--interval", "100ms")
	address := netip.MustParseAddrPort("[fd77:0:0:4::2]:9000")
	const path, count = "0x000101 0x000102 0x000103", 300
	b.numberedDatagrams(address, count)
	// Without a number, as a route with encap ioam6 sends it: in each segment of a connection.
	trace := traceHeader(4)
	x := b.carryOver("a", "b", address.Addr(), 1<<20, net.ListenConfig{}, net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, string(trace))
		})
		if err != nil {
			return err
		}
		return failed
	}})
	x.finish() // compares SHA-256
	var read destinationSummary
	d.finish(&read)
	if read.Packets != count || read.Kept != count || read.Expected != count || read.Restored+read.Lost+read.Duplicated+read.Rejected != 0 {
		t.Errorf("%d marks of others were read as %+v", count, read)
	}
	if read.Unmarked < 16 || read.Traces.Read < count+16 || read.Traces.Read > count+read.Unmarked || read.Traces.Dropped+read.Traces.Malformed != 0 {
		t.Errorf("traces of %d datagrams and up to %d segments are %+v", count, read.Unmarked, read.Traces)
	}
	if packets := d.hopsOf(); packets[path] != read.Traces.Read || len(packets) != 1 {
		t.Errorf("packets by path are %v, want %d", packets, read.Traces.Read)
	}
	t.Logf("%d packets, traces %+v", read.Seen, read.Traces)
}

// numberedDatagrams sends datagrams with a header of their own, and checks that the receiver
// gets it as the routers left it.
func (b *bed) numberedDatagrams(address netip.AddrPort, count int) {
	t := b.t
	flow := b.open("a", "b", address)
	if err := setOption(flow.in, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPOPTS, 1)
	}); err != nil {
		t.Fatal(err)
	}
	data, control := make([]byte, 100), make([]byte, 500)
	for i := range count {
		sent := numberedHeader(1<<31|uint32(i), time.Now())
		content := binary.BigEndian.AppendUint32([]byte("pillion!"), uint32(i))
		if _, _, err := flow.out.WriteMsgUDP(content, hopControl(sent), nil); err != nil {
			t.Fatal(err)
		}
		_ = flow.in.SetReadDeadline(time.Now().Add(hang.Limit))
		n, controls, _, _, err := flow.in.ReadMsgUDP(data, control)
		if err != nil || !bytes.Equal(data[:n], content) {
			t.Fatalf("received %q: %v", data[:n], err)
		}
		messages, err := unix.ParseSocketControlMessage(control[:controls])
		if err != nil || len(messages) != 1 || messages[0].Header.Type != unix.IPV6_HOPOPTS {
			t.Fatalf("control messages are %+v: %v", messages, err)
		}
		got := messages[0].Data
		// What is not for routers is as sent. They filled three of four nodes.
		begin, end := traceNodes+traceNode, traceNodes+4*traceNode
		if len(got) != len(sent) || !bytes.Equal(got[1:traceRemain], sent[1:traceRemain]) || !bytes.Equal(got[end:], sent[end:]) ||
			got[traceRemain]&0x7f != 3 || !bytes.Equal(got[traceRemain+1:begin], sent[traceRemain+1:begin]) || got[begin+3] != 3 {
			t.Fatalf("header % x arrived as % x", sent, got)
		}
	}
}
