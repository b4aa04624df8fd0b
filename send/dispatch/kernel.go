package dispatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pillion.dev/internal/netns"
)

const (
	// slice is the longest wait of one iteration: SLICE_NS of dispatch_bpf.c.
	slice = 20 * time.Microsecond
	// wakeAhead is how long before a packet is due its run begins; packets nearer to each
	// other than that are sent in one run.
	wakeAhead = 300 * time.Microsecond
	// longestRun bounds the busy time of one run: the scheduler takes 50 ms of each second
	// of a real-time thread that never sleeps, if it stays on one processor.
	longestRun = 400 * time.Millisecond
	// stampWait is how long a driver's time may come after the packet was handed over.
	stampWait = 50 * time.Millisecond
	// idle is the sleep of a thread that has nothing to do until another has worked.
	idle = 50 * time.Microsecond
)

// kernel sends by a BPF program that waits in the kernel.
type kernel struct {
	options Options
	objects dispatchObjects
	driver  link.Link // of the tracepoint; nil if driver times are left out
	ring    *ring
	device  int
	context skbContext
	reading time.Duration // of the clock
	mu      sync.Mutex    // guards remarks
	remarks []string
}

// skbContext is struct __sk_buff up to ifindex, which tells a run its device.
type skbContext struct {
	_       [10]uint32
	IfIndex uint32
}

func openKernel(options Options) (Sender, error) {
	k := &kernel{options: options, reading: readingTime()}
	err := onThread(options.Namespace, k.open)
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func (k *kernel) open() error {
	device, err := net.InterfaceByName(k.options.Device)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", k.options.Device, err)
	}
	k.device, k.context.IfIndex = device.Index, uint32(device.Index)
	spec, err := loadDispatch()
	if err != nil {
		return err
	}
	namespace, err := netns.Inode()
	if err != nil {
		return err
	}
	for name, value := range map[string]uint32{
		dispatchVarDevice: uint32(k.device), dispatchVarNamespace: namespace, dispatchVarMark: nextMark(),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	spec.Maps[dispatchMapFrames].MaxEntries = frameCount
	if err := spec.LoadAndAssign(&k.objects, nil); err != nil {
		return fmt.Errorf("load programs (needs Linux 5.17): %w", err)
	}
	if k.ring, err = openRing(&k.objects.dispatchMaps); err != nil {
		return err
	}
	k.ring.control.LateAfter = uint64(k.options.DropLate)
	if k.options.NoDriver {
		return nil
	}
	k.driver, err = link.AttachTracing(link.TracingOptions{Program: k.objects.DispatchDriver, AttachType: ebpf.AttachTraceRawTp})
	if err != nil {
		k.remarks = append(k.remarks, fmt.Sprintf("no driver times: %v", err))
	}
	return nil
}

// opened counts the senders of this process, from a random number.
var opened atomic.Uint32

func init() { opened.Store(rand.Uint32()) }

// nextMark is the part of the packets' marks by which several senders on one device tell
// their packets apart. Its upper bit is set, which marks of other programs seldom have.
func nextMark() uint32 { return 1<<31 | opened.Add(slotCount)&^slotMask }

// Name of the mechanism.
func (k *kernel) Name() string { return "bpf" }

// Uncertainty of the times in records.
func (k *kernel) Uncertainty() map[Source]time.Duration {
	bounds := map[Source]time.Duration{Handover: k.reading}
	if k.driver != nil {
		bounds[Observer] = k.reading
	}
	return bounds
}

// Remarks says what limits the accuracy.
func (k *kernel) Remarks() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.remarks)
}

// Close detaches and unloads the programs.
func (k *kernel) Close() error {
	var failures []error
	if k.driver != nil {
		failures = append(failures, k.driver.Close())
	}
	if k.ring != nil {
		failures = append(failures, k.ring.close())
	}
	return errors.Join(append(failures, k.objects.Close())...)
}

// Send hands packets over ahead of time while a thread of its own runs the program.
func (k *kernel) Send(ctx context.Context, delay time.Duration, packets iter.Seq2[Packet, error], report func(Record)) error {
	k.ring.control.Cancelled = 0
	stop := context.AfterFunc(ctx, k.ring.cancel)
	defer stop()
	f := &flight{
		kernel: k, ctx: ctx, delay: max(delay, k.options.Lead), report: report, names: make([]name, slotCount), data: make([]byte, frameBytes),
		reaped: k.ring.filled(), ready: make(chan struct{}), started: make(chan struct{}), filled: make(chan struct{}), landed: make(chan struct{}),
	}
	go func() {
		defer close(f.landed)
		f.failure = onThread(k.options.Namespace, f.run)
	}()
	<-f.ready
	err := f.fillAll(packets)
	close(f.filled)
	f.begin() // if the whole schedule was handed over first
	f.reapAll()
	return errors.Join(err, f.failure, ctx.Err())
}

// run sends what is in the ring until nothing more comes. It runs on a thread of its own.
func (f *flight) run() error {
	f.prioritise()
	close(f.ready)
	<-f.started
	for {
		last := isClosed(f.filled)
		next := f.ring.next()
		if next == f.ring.filled() {
			if last {
				return nil
			}
			if sleepUntil(f.ctx, now()+int64(idle)) != nil {
				return nil
			}
			continue
		}
		if f.busy > longestRun && leaveProcessor() {
			f.busy = 0
		}
		near, begun := f.near(), now()
		if sleepUntil(f.ctx, f.start+int64(f.ring.slots[next&slotMask].Due)-int64(near)) != nil {
			return nil
		}
		woke := now()
		if err := f.once(next, near); err != nil {
			return err
		}
		f.busy = max(0, f.busy+time.Duration(now()-woke)-busyRefund*time.Duration(woke-begun))
	}
}

// prioritise makes the calling thread a real-time thread, or says why it is none.
func (f *flight) prioritise() {
	err := errors.Join(blockSignals(), prioritise())
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && len(f.remarks) == 0 {
		f.remarks = append(f.remarks, fmt.Sprintf("ordinary priority, other processes may delay packets: %v", err))
	}
}

// A thread that has been busy for long sleeps before packets that are not as far away:
// other processes of the processor get their time then, and the scheduler need not take
// it in one piece of 50 ms a second. If packets are too close for that, it moves to another
// processor (leaveProcessor). Sleep makes up for busyRefund times its length, so that
// about a tenth of the time is slept.
const busyRefund = 10

func (f *flight) near() time.Duration {
	switch {
	case f.busy > 400*time.Millisecond:
		return 30 * time.Microsecond
	case f.busy > 200*time.Millisecond:
		return 100 * time.Microsecond
	}
	return wakeAhead
}

// once runs the program for the packets that follow each other closely.
func (f *flight) once(next uint64, near time.Duration) error {
	first := f.ring.slots[next&slotMask]
	longest, due := first.Length, first.Due
	var packets int
	for at := next; at < f.ring.filled(); at++ {
		s := &f.ring.slots[at&slotMask]
		if s.Protocol != first.Protocol || s.Due > due+uint64(near) || s.Due > first.Due+uint64(longestRun) {
			break
		}
		longest, due = max(longest, s.Length), s.Due
		packets++
	}
	wait := max(0, f.start+int64(due)-now())
	f.ring.control.Limit = next + uint64(packets)
	f.ring.control.Prepared, f.ring.control.Frame, f.ring.control.Length = 0, 0, 0
	data := f.data[:longest]
	data[12], data[13] = byte(first.Protocol), byte(first.Protocol>>8)
	repeat := packets + int(wait/int64(slice)) + 16 // those without a packet return at once
	if err := f.runProgram(data, repeat, time.Duration(wait)+time.Duration(packets)*longestSend < soon); err != nil {
		return fmt.Errorf("run program on %s: %w", f.options.Device, err)
	}
	return nil
}

// longestSend bounds the time to send a packet, to tell which runs end soon.
const longestSend = 5 * time.Microsecond

// testRun is the attribute of BPF_PROG_TEST_RUN: struct bpf_attr, test (linux/bpf.h).
type testRun struct {
	program, result           uint32
	dataInBytes, dataOutBytes uint32
	dataIn, dataOut           uint64
	repeat, duration          uint32
	contextInBytes            uint32
	contextOutBytes           uint32
	contextIn, contextOut     uint64
	flags, cpu, batch, _      uint32
}

// runProgram runs the program so many times in one system call. One that a signal ends is
// begun again by the caller, because the ring says where it stopped.
func (f *flight) runProgram(data []byte, repeat int, endsSoon bool) error {
	attribute := testRun{
		program: uint32(f.objects.DispatchRun.FD()), repeat: uint32(repeat),
		dataInBytes: uint32(len(data)), dataIn: uint64(uintptr(unsafe.Pointer(&data[0]))),
		contextInBytes: uint32(unsafe.Sizeof(f.context)), contextIn: uint64(uintptr(unsafe.Pointer(&f.context))),
	}
	call := unix.Syscall
	if endsSoon {
		call = unix.RawSyscall
	}
	_, _, e := call(unix.SYS_BPF, unix.BPF_PROG_TEST_RUN, uintptr(unsafe.Pointer(&attribute)), unsafe.Sizeof(attribute))
	runtime.KeepAlive(f) // data and context are on the heap, which does not move
	if e != 0 && e != unix.EINTR {
		return e
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
