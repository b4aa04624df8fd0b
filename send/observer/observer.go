// Package observer is a witness of departures: it records when tagged packets (frame.Tag)
// reach the driver of an interface, or enter the far end of a veth pair. It shares neither code nor map with the sender, so
// tests and benchmarks take it for the truth. Its own cost on the path is 150 to 310 ns.
package observer

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

// Observer watches one interface.
type Observer struct {
	objects observerObjects
	link    link.Link
	memory  []byte
	sights  []observerSight
	train   int
}

// Place is where packets are seen.
type Place int

// Places.
const (
	Arrival   Place = iota // netif_rx of the interface
	Departure              // the driver of the interface gets the packet
)

// Sight is when the first copy of a packet was seen (CLOCK_MONOTONIC, ns; 0: none was),
// and how many were.
type Sight struct {
	At     int64
	Copies uint64
}

// Open watches a place of the interface with the given index, in the network namespace of the calling
// thread. Tags lie offset bytes behind the
// beginning of the network header; there are trains of packets each.
func Open(place Place, device, offset, trains, packets int) (*Observer, error) {
	spec, err := loadObserver()
	if err != nil {
		return nil, err
	}
	namespace, err := netns.Inode()
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]int{
		observerVarDevice: device, observerVarNamespace: int(namespace), observerVarOffset: offset, observerVarTrain: packets,
	} {
		if err := spec.Variables[name].Set(uint32(value)); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	spec.Maps[observerMapSights].MaxEntries = uint32(trains * packets)
	o := &Observer{train: packets}
	if err := spec.LoadAndAssign(&o.objects, nil); err != nil {
		return nil, fmt.Errorf("load observer: %w", err)
	}
	size := trains * packets * int(unsafe.Sizeof(observerSight{}))
	if o.memory, err = unix.Mmap(o.objects.Sights.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, errors.Join(fmt.Errorf("map observer: %w", err), o.Close())
	}
	o.sights = unsafe.Slice((*observerSight)(unsafe.Pointer(unsafe.SliceData(o.memory))), trains*packets)
	program := o.objects.ObserverArrival
	if place == Departure {
		program = o.objects.ObserverDeparture
	}
	o.link, err = link.AttachTracing(link.TracingOptions{Program: program, AttachType: ebpf.AttachTraceRawTp})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach observer: %w", err), o.Close())
	}
	return o, nil
}

// Sight of a packet.
func (o *Observer) Sight(train, number int) Sight {
	s := &o.sights[train*o.train+number]
	return Sight{At: int64(s.At), Copies: s.Copies}
}

// Reset forgets everything.
func (o *Observer) Reset() { clear(o.sights) }

// Close detaches the observer.
func (o *Observer) Close() error {
	var failures []error
	if o.link != nil {
		failures = append(failures, o.link.Close())
	}
	if o.memory != nil {
		failures = append(failures, unix.Munmap(o.memory))
	}
	return errors.Join(append(failures, o.objects.Close())...)
}
