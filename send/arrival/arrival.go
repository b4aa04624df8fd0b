// Package arrival records when the packets of a sender arrive at an interface, possibly
// on another host: BPF programs read the tag of each packet (frame.Tag) where the
// driver hands it to the network stack, before GRO merges packets. Times are of
// CLOCK_MONOTONIC. A card that coalesces interrupts delays packets before they are seen.
package arrival

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
	"pillion.dev/send/frame"
)

// Limit is how many packets the round of a sender on another host may have.
const Limit = 1 << 18

// Flow tells the packets of one sender from all others.
type Flow struct {
	Source                      netip.Addr
	Protocol                    string // of package frame; empty: UDP
	Number                      uint8  // IP protocol number of frame.Raw
	SourcePort, DestinationPort uint16 // not of ICMP and Raw
}

// Watch records the arrivals of a flow.
type Watch struct {
	objects  arrivalObjects
	links    []link.Link
	memory   []byte
	arrivals []uint64
}

// ErrFlow marks a flow that cannot be watched.
var ErrFlow = errors.New("invalid flow")

// number of the flow's protocol in IP.
func (f Flow) number() (uint8, error) {
	switch {
	case !f.Source.IsValid():
		return 0, fmt.Errorf("%w: it has no source address", ErrFlow)
	case f.Protocol == frame.UDP || f.Protocol == "":
		return unix.IPPROTO_UDP, nil
	case f.Protocol == frame.TCP:
		return unix.IPPROTO_TCP, nil
	case f.Protocol == frame.ICMP && f.Source.Is4():
		return unix.IPPROTO_ICMP, nil
	case f.Protocol == frame.ICMP:
		return unix.IPPROTO_ICMPV6, nil
	case f.Protocol == frame.Raw:
		return f.Number, nil
	}
	return 0, fmt.Errorf("%w: protocol %q: udp, tcp, icmp or raw", ErrFlow, f.Protocol)
}

// Open watches an interface in the network namespace of the calling thread. A round has limit
// packets at most, each of which takes 8 bytes of memory.
func Open(device string, flow Flow, limit int) (*Watch, error) {
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, fmt.Errorf("find interface %s: %w", device, err)
	}
	spec, err := loadArrival()
	if err != nil {
		return nil, err
	}
	namespace, err := netns.Inode()
	if err != nil {
		return nil, err
	}
	protocol, err := flow.number()
	if err != nil {
		return nil, err
	}
	var source [16]byte
	copy(source[:], flow.Source.AsSlice())
	version := uint8(6)
	if flow.Source.Is4() {
		version = 4
	}
	raw := uint8(0)
	if flow.Protocol == frame.Raw {
		raw = 1
	}
	for name, value := range map[string]any{
		arrivalVarDevice: uint32(dev.Index), arrivalVarNamespace: namespace, arrivalVarVersion: version,
		arrivalVarProtocol: protocol, arrivalVarRaw: raw, arrivalVarSource: source,
		arrivalVarSourcePort: networkOrder(flow.SourcePort), arrivalVarDestinationPort: networkOrder(flow.DestinationPort),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	spec.Maps[arrivalMapArrivals].MaxEntries = uint32(limit)
	w := &Watch{}
	if err := spec.LoadAndAssign(&w.objects, nil); err != nil {
		return nil, fmt.Errorf("load programs (needs Linux 5.11 with BTF): %w", err)
	}
	if err := w.attach(limit); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// networkOrder is the port as it lies in packets.
func networkOrder(port uint16) (b [2]byte) {
	binary.BigEndian.PutUint16(b[:], port)
	return b
}

func (w *Watch) attach(limit int) (err error) {
	size := limit * int(unsafe.Sizeof(uint64(0)))
	if w.memory, err = unix.Mmap(w.objects.Arrivals.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map arrivals: %w", err)
	}
	w.arrivals = unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(w.memory))), limit)
	for _, program := range []*ebpf.Program{w.objects.ArrivalGro, w.objects.ArrivalReceive, w.objects.ArrivalRx} {
		l, err := link.AttachTracing(link.TracingOptions{Program: program, AttachType: ebpf.AttachTraceRawTp})
		if err != nil {
			return fmt.Errorf("attach %v: %w", program, err)
		}
		w.links = append(w.links, l)
	}
	return nil
}

// Begin forgets all arrivals and begins a round: trains of packets each, numbered from first
// on. Packets of trains with lower numbers are ignored.
func (w *Watch) Begin(first uint32, trains, packets int) error {
	limit := len(w.arrivals)
	if trains < 1 || packets < 1 || trains > limit || packets > limit || trains*packets > limit {
		return fmt.Errorf("%w: %d trains of %d packets: the limit is %d packets", ErrFlow, trains, packets, limit)
	}
	if err := errors.Join(w.objects.FirstTrain.Set(first), w.objects.Packets.Set(uint32(packets))); err != nil {
		return fmt.Errorf("begin round: %w", err)
	}
	clear(w.arrivals)
	return nil
}

// Arrivals of the first packets of the round, by train and number: times of CLOCK_MONOTONIC
// in ns, 0 of packets that have not arrived.
func (w *Watch) Arrivals(packets int) []int64 {
	list := make([]int64, packets)
	for i := range list {
		list[i] = int64(atomic.LoadUint64(&w.arrivals[i]))
	}
	return list
}

// Close detaches the programs.
func (w *Watch) Close() error {
	var failures []error
	for _, l := range w.links {
		failures = append(failures, l.Close())
	}
	if w.memory != nil {
		failures = append(failures, unix.Munmap(w.memory))
	}
	return errors.Join(append(failures, w.objects.Close())...)
}
