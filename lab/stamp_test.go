package lab_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stampSocket lets the kernel say when it received each datagram, and when it gave one to the driver if sendStamped
// sent it.
func stampSocket(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING,
		unix.SOF_TIMESTAMPING_RX_SOFTWARE|unix.SOF_TIMESTAMPING_SOFTWARE|unix.SOF_TIMESTAMPING_OPT_TSONLY)
}

// stampOf returns the kernel's time of a datagram, if the control messages have one.
func stampOf(messages []unix.SocketControlMessage) (time.Time, bool) {
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPING && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), true
		}
	}
	return time.Time{}, false
}

// sendStamped sends a datagram, to the socket's own destination if to is none, and returns when the kernel gave it to
// the driver.
func sendStamped(socket *net.UDPConn, data []byte, to netip.AddrPort) (sent time.Time, err error) {
	ask := make([]byte, unix.CmsgSpace(4))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&ask[0]))
	header.Level, header.Type = unix.SOL_SOCKET, unix.SO_TIMESTAMPING
	header.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(ask[unix.CmsgLen(0):], unix.SOF_TIMESTAMPING_TX_SOFTWARE)
	if _, _, err := socket.WriteMsgUDPAddrPort(data, ask, to); err != nil {
		return sent, err
	}
	err = onSocket(socket, func(fd int) error {
		const patience = 1000                                                                    // ms
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, patience); err != nil || n == 0 { // POLLERR
			return fmt.Errorf("the kernel does not say when it sent a datagram: %w", err)
		}
		control := make([]byte, 512)
		_, size, _, _, err := unix.Recvmsg(fd, nil, control, unix.MSG_ERRQUEUE)
		if err != nil {
			return err
		}
		messages, err := unix.ParseSocketControlMessage(control[:size])
		if err != nil {
			return err
		}
		var ok bool
		if sent, ok = stampOf(messages); !ok {
			return fmt.Errorf("the kernel does not say when it sent a datagram: %+v", messages)
		}
		return nil
	})
	return sent, err
}
