// Package router measures where packets wait inside a router (seed 3), in the kernel
// and without a change of it.
//
// Each forwarded packet is seen four times: when it enters (t1), when IP begins with
// it (t2: PRE_ROUTING), when IP has ended (t3: POST_ROUTING), and when the output
// driver gets it (t4). Between them lie input queuing, processing and output queuing.
// Histograms, queues and accounts are kept by the programs; nothing goes to user space
// per packet unless records are asked for.
//
// In the flow it stands beside source and destination: package measure makes points of
// what it reads. It does not know whose traffic it is, and changes none.
package router

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"runtime"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
)

// Defaults and limits of Options.
const (
	DefaultPairs       = 16
	DefaultRecordBytes = 4 << 20
	maxPairs           = 256
	maxDevices         = 16
	maxShards          = 16
)

// ErrOptions marks invalid options.
var ErrOptions = errors.New("bad options")

// Router is a profile that runs.
type Router struct {
	options    Options
	namespace  netns.NsHandle
	interfaces *netlink.Handle
	collection *ebpf.Collection
	links      []link.Link
	causes     []link.Link // of the programs that only causes need
	records    *ringbuf.Reader
	breaks     *ringbuf.Reader
	stats      io.Closer
	counted    bool // costs, ever
	reasons    map[uint32]string
	shards     int
	places     int
	reading    sync.Mutex // guards keys
	keys       *[tableSize]uint64
}

// Open profiles the router from now on.
func Open(o Options) (*Router, error) {
	o.Pairs = cmp.Or(o.Pairs, DefaultPairs)
	o.Sampling = max(o.Sampling, 1)
	o.RecordBytes = cmp.Or(o.RecordBytes, DefaultRecordBytes)
	o.Break = cmp.Or(o.Break, DefaultBreak)
	if err := check(o); err != nil {
		return nil, fmt.Errorf("open router: %w", err)
	}
	r := &Router{options: o, namespace: netns.None(), keys: new([tableSize]uint64)}
	if err := r.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open router: %w", err), r.Close())
	}
	return r, nil
}

func check(o Options) error {
	if o.Pairs < 1 || o.Pairs > maxPairs {
		return fmt.Errorf("%w: %d pairs of interfaces, not 1 to %d", ErrOptions, o.Pairs, maxPairs)
	}
	if size := o.RecordBytes; size < 4096 || size&(size-1) != 0 || size > 1<<30 {
		return fmt.Errorf("%w: %d bytes of records is not a power of two from 4096 to 2^30", ErrOptions, size)
	}
	if o.Break < 0 {
		return fmt.Errorf("%w: a break of %v", ErrOptions, o.Break)
	}
	if max(len(o.In), len(o.Out)) > maxDevices {
		return fmt.Errorf("%w: more than %d interfaces", ErrOptions, maxDevices)
	}
	if o.Match.Source.IsValid() && o.Match.Destination.IsValid() &&
		o.Match.Source.Addr().Is4() != o.Match.Destination.Addr().Is4() {
		return fmt.Errorf("%w: source %v and destination %v are of two families", ErrOptions, o.Match.Source, o.Match.Destination)
	}
	return nil
}

func (r *Router) open() error {
	if err := r.enter(); err != nil {
		return err
	}
	types := btf.NewCache()
	kernel, err := types.Kernel()
	if err != nil {
		return fmt.Errorf("read the kernel's types: %w", err)
	}
	r.reasons = dropReasons(kernel)
	if err := r.load(kernel, types); err != nil {
		return err
	}
	if r.options.Records {
		if r.records, err = ringbuf.NewReader(r.collection.Maps[routerMapRecords]); err != nil {
			return fmt.Errorf("open records: %w", err)
		}
	}
	if r.breaks, err = ringbuf.NewReader(r.collection.Maps[routerMapBreaks]); err != nil {
		return fmt.Errorf("open breaks: %w", err)
	}
	if err := r.findBacklogs(); err != nil {
		return err
	}
	if r.options.Costs {
		if err := r.CountCosts(true); err != nil {
			return err
		}
	}
	return r.attach()
}

// enter opens the router's namespace for what is looked up in it later.
func (r *Router) enter() (err error) {
	if r.options.Netns != 0 {
		fd, err := unix.FcntlInt(uintptr(r.options.Netns), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open namespace %d: %w", r.options.Netns, err)
		}
		r.namespace = netns.NsHandle(fd)
	} else {
		runtime.LockOSThread()
		r.namespace, err = netns.Get()
		runtime.UnlockOSThread()
		if err != nil {
			return fmt.Errorf("open own namespace: %w", err)
		}
	}
	if r.interfaces, err = netlink.NewHandleAt(r.namespace, unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("enter namespace: %w", err)
	}
	return nil
}

// load loads the programs; types has the kernel's types, so that they are decoded once.
func (r *Router) load(kernel *btf.Spec, types *btf.Cache) error {
	spec, err := loadRouter()
	if err != nil {
		return err
	}
	constants, err := r.constants()
	if err != nil {
		return err
	}
	if err := hook.SetConstants(spec, constants); err != nil {
		return err
	}
	for name, program := range spec.Programs {
		if optional[program.AttachTo] && !hasTracepoint(kernel, program.AttachTo) {
			delete(spec.Programs, name)
		}
	}
	spec.Maps[routerMapPairs].MaxEntries = uint32((r.places + 1) * r.shards)
	spec.Maps[routerMapQueueSums].MaxEntries = uint32((r.places + 1) * queueSides)
	spec.Maps[routerMapQueueSizes].MaxEntries = uint32((r.places + 1) * queueSides)
	spec.Maps[routerMapBreakSums].MaxEntries = uint32(r.shards)
	if r.options.Records {
		spec.Maps[routerMapRecords].MaxEntries = uint32(r.options.RecordBytes)
	} else {
		spec.Maps[routerMapRecords].MaxEntries = uint32(os.Getpagesize())
	}
	r.collection, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("load programs: %w: BPF netfilter programs, since 6.4, are needed: %w", hook.ErrOldKernel, err)
	}
	if err != nil {
		return fmt.Errorf("load programs: %w", hook.Explain(err))
	}
	return nil
}

// spread decides how many copies of each pair there are, so that processors do not
// write to the same one.
func (r *Router) spread() (shared bool, err error) {
	processors, err := ebpf.PossibleCPU()
	if err != nil {
		return false, fmt.Errorf("count processors: %w", err)
	}
	r.places = powerOfTwo(r.options.Pairs)
	r.shards = min(powerOfTwo(processors), maxShards)
	return processors > r.shards, nil
}

// powerOfTwo is the least that n fits in.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

// Close ends the profile. Nothing can be read of it afterwards.
func (r *Router) Close() error {
	err := r.detach()
	if r.records != nil {
		err = errors.Join(err, r.records.Close())
	}
	if r.breaks != nil {
		err = errors.Join(err, r.breaks.Close())
	}
	err = errors.Join(err, r.CountCosts(false))
	if r.collection != nil {
		r.collection.Close()
	}
	if r.interfaces != nil {
		r.interfaces.Close()
	}
	if r.namespace.IsOpen() {
		err = errors.Join(err, r.namespace.Close())
	}
	if err != nil {
		return fmt.Errorf("close router: %w", err)
	}
	return nil
}
