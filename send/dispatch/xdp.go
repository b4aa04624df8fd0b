package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	xdpFrames     = 1024 // in the memory shared with the kernel; a power of two
	xdpFrameBytes = 2048
	// xdpPatience is how long a packet is offered to a device whose queue is full, and how
	// long one waits for a free frame.
	xdpPatience = time.Millisecond
	// xdpRelease bounds the time to wait for a queue that another socket uses, or has used.
	xdpRelease = 2 * time.Second
)

// xdpSocket sends frames by an AF_XDP socket in copy mode, which works on each Ethernet
// device and leaves its queues alone. The kernel sends the frame within the system call, so
// that it is known at once whether the device took it.
type xdpSocket struct {
	fd          int
	memory      []byte // frames
	rings       [][]byte
	transmit    xdpRing
	completion  xdpRing
	free        []uint64     // addresses of frames
	next        unix.XDPDesc // of the prepared packet
	holding     bool         // the kernel does not have the frame of next
	descriptors []unix.XDPDesc
	completed   []uint64
}

// xdpRing is a ring of descriptors with one producer and one consumer.
type xdpRing struct{ producer, consumer *uint32 }

// bypass is what limits the use of the mechanism.
const bypass = "packets bypass the queueing discipline, TC programs and packet captures: a Pillion source on the interface does not mark them"

// errBypass is an interface with programs that the packets would not pass.
var errBypass = errors.New("the interface has TC programs, which packets would bypass (--mechanism xdp does so)")

func openXDP(options Options, _ bool) (outlet, error) {
	device, err := netlink.LinkByName(options.Device)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", options.Device, err)
	}
	if !isEthernet(device) {
		return nil, fmt.Errorf("interface %s has no Ethernet header", options.Device)
	}
	if options.Mechanism == "" && hasPrograms(device) {
		return nil, errBypass
	}
	x := &xdpSocket{}
	if x.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open XDP socket (needs Linux 4.18): %w", err)
	}
	if err := x.open(device.Attrs().Index); err != nil {
		return nil, errors.Join(fmt.Errorf("open XDP socket on %s: %w", options.Device, err), x.close())
	}
	return x, nil
}

// hasPrograms reports whether packets that leave pass TC programs or filters.
func hasPrograms(device netlink.Link) bool {
	attached, err := link.QueryPrograms(link.QueryOptions{Target: device.Attrs().Index, Attach: ebpf.AttachTCXEgress})
	if err == nil && len(attached.Programs) > 0 {
		return true
	}
	filters, err := netlink.FilterList(device, netlink.HANDLE_MIN_EGRESS)
	return err == nil && len(filters) > 0
}

func (x *xdpSocket) open(device int) (err error) {
	if x.memory, err = unix.Mmap(-1, 0, xdpFrames*xdpFrameBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return fmt.Errorf("allocate frames: %w", err)
	}
	region := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&x.memory[0]))), Len: uint64(len(x.memory)), Size: xdpFrameBytes}
	if err := x.set(unix.XDP_UMEM_REG, unsafe.Pointer(&region), unsafe.Sizeof(region)); err != nil {
		return fmt.Errorf("register frames: %w", err)
	}
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_TX_RING} {
		if err := unix.SetsockoptInt(x.fd, unix.SOL_XDP, ring, xdpFrames); err != nil {
			return fmt.Errorf("set size of ring: %w", err)
		}
	}
	var offsets unix.XDPMmapOffsets
	size := uint32(unsafe.Sizeof(offsets))
	if _, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(x.fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&offsets)), uintptr(unsafe.Pointer(&size)), 0); e != 0 {
		return fmt.Errorf("read offsets of rings: %w", e)
	}
	if uintptr(size) != unsafe.Sizeof(offsets) {
		return errors.New("offsets of rings are of an old format (needs Linux 5.4)")
	}
	var b []byte
	if x.transmit, b, err = x.ring(unix.XDP_PGOFF_TX_RING, offsets.Tx, unsafe.Sizeof(unix.XDPDesc{})); err != nil {
		return err
	}
	x.descriptors = unsafe.Slice((*unix.XDPDesc)(unsafe.Pointer(&b[offsets.Tx.Desc])), xdpFrames)
	if x.completion, b, err = x.ring(unix.XDP_UMEM_PGOFF_COMPLETION_RING, offsets.Cr, unsafe.Sizeof(uint64(0))); err != nil {
		return err
	}
	x.completed = unsafe.Slice((*uint64)(unsafe.Pointer(&b[offsets.Cr.Desc])), xdpFrames)
	for i := range uint64(xdpFrames) {
		x.free = append(x.free, i*xdpFrameBytes)
	}
	// The kernel releases the queue some time after the socket that used it is closed.
	for until := time.Now().Add(xdpRelease); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Bind(x.fd, &unix.SockaddrXDP{Flags: unix.XDP_COPY, Ifindex: uint32(device)})
		if err != unix.EBUSY || time.Now().After(until) {
			return err
		}
	}
}

func (x *xdpSocket) set(option uintptr, value unsafe.Pointer, size uintptr) error {
	if _, _, e := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(x.fd), unix.SOL_XDP, option, uintptr(value), size, 0); e != 0 {
		return e
	}
	return nil
}

// ring maps a ring into memory.
func (x *xdpSocket) ring(at int64, o unix.XDPRingOffset, entry uintptr) (xdpRing, []byte, error) {
	b, err := unix.Mmap(x.fd, at, int(o.Desc)+xdpFrames*int(entry), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return xdpRing{}, nil, fmt.Errorf("map ring: %w", err)
	}
	x.rings = append(x.rings, b)
	return xdpRing{(*uint32)(unsafe.Pointer(&b[o.Producer])), (*uint32)(unsafe.Pointer(&b[o.Consumer]))}, b, nil
}

// reclaim takes back the frames that have been sent.
func (x *xdpSocket) reclaim() {
	consumer, producer := *x.completion.consumer, atomic.LoadUint32(x.completion.producer)
	for ; consumer != producer; consumer++ {
		x.free = append(x.free, x.completed[consumer%xdpFrames])
	}
	atomic.StoreUint32(x.completion.consumer, consumer)
}

// errBusy is a device that holds all frames.
var errBusy = fmt.Errorf("device has not sent any of %d packets", xdpFrames)

func (x *xdpSocket) prepare(p *Packet) error {
	if p.Frame.Len() > xdpFrameBytes {
		return fmt.Errorf("frame of %d bytes: the limit is %d", p.Frame.Len(), xdpFrameBytes)
	}
	for until := now() + int64(xdpPatience); !x.holding; {
		if x.reclaim(); len(x.free) > 0 {
			x.next.Addr, x.holding = x.free[len(x.free)-1], true
			x.free = x.free[:len(x.free)-1]
		} else if now() > until {
			return errBusy
		}
	}
	at := x.next.Addr
	x.next.Len = uint32(len(p.Frame.AppendTo(x.memory[at : at : at+xdpFrameBytes])))
	return nil
}

// send sends the frame. The kernel looks at the ring within the system call only; what it
// left there is withdrawn.
func (x *xdpSocket) send() error {
	at := *x.transmit.producer
	x.descriptors[at%xdpFrames] = x.next
	atomic.StoreUint32(x.transmit.producer, at+1)
	for until := int64(0); ; {
		_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(x.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch {
		case e == unix.EBUSY: // some kernels show later that they took the descriptor
			x.holding = false
			return fmt.Errorf("device dropped the packet: %w", e)
		case atomic.LoadUint32(x.transmit.consumer) == at+1:
			x.holding = false
			return nil
		case until == 0:
			until = now() + int64(xdpPatience)
		}
		if e != 0 && e != unix.EAGAIN && e != unix.ENOBUFS || now() > until {
			atomic.StoreUint32(x.transmit.producer, at)
			return fmt.Errorf("hand frame over: %w", cmp.Or(e, unix.EAGAIN))
		}
		x.reclaim() // the completion ring may be full
	}
}

func (x *xdpSocket) socket() int { return -1 }

func (x *xdpSocket) close() error {
	failures := []error{unix.Close(x.fd)}
	for _, b := range append(x.rings, x.memory) {
		if b != nil {
			failures = append(failures, unix.Munmap(b))
		}
	}
	return errors.Join(failures...)
}
