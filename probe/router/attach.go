package router

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"pillion.dev/probe/hook"
)

// optional are the tracepoints that not all kernels have.
var optional = map[string]bool{
	"napi_gro_frags_entry":         true,
	"napi_gro_frags_exit":          true,
	"netif_receive_skb_list_entry": true,
	"sched_switch":                 true,
	"softirq_entry":                true,
	"softirq_exit":                 true,
	"irq_handler_entry":            true,
	"irq_handler_exit":             true,
	"napi_poll":                    true,
}

func hasTracepoint(kernel *btf.Spec, name string) bool {
	_, err := kernel.AnyTypeByName("btf_trace_" + name)
	return err == nil
}

// tracepoints in the order of attachment: ends before beginnings.
var tracepoints = []string{
	routerProgRouterFree, routerProgRouterFreeAgain, routerProgRouterConsume, routerProgRouterStartXmit,
	routerProgRouterGroExit, routerProgRouterFragsExit,
	routerProgRouterGroEntry, routerProgRouterFragsEntry,
	routerProgRouterReceive, routerProgRouterReceiveList, routerProgRouterNetifRx,
}

// causeTracepoints are only needed for the causes of coffee breaks; ends also come before beginnings.
var causeTracepoints = []string{
	routerProgRouterSwitch, routerProgRouterSoftirqExit, routerProgRouterSoftirqEntry,
	routerProgRouterIrqExit, routerProgRouterIrqEntry,
}

// The outermost netfilter priorities that a program can have; the kernel reserves the very first and the very last.
// A priority can be taken only once: other profiles of the namespace take the next ones inwards.
const (
	first  = math.MinInt32 + 1
	last   = math.MaxInt32 - 1
	places = 16
)

var filters = []struct {
	program  string
	hook     link.NetfilterInetHook
	priority int32
}{
	{routerProgRouterPostRouting, link.NetfilterInetPostRouting, last},
	{routerProgRouterLocalIn, link.NetfilterInetLocalIn, last},
	{routerProgRouterPreRouting, link.NetfilterInetPreRouting, first},
}

// attach observes no packet before all programs are attached, since they must see where each packet ends.
func (r *Router) attach() error {
	if err := r.pause(true); err != nil {
		return err
	}
	if err := r.inNamespace(r.attachFilters); err != nil {
		return err
	}
	if err := r.trace(tracepoints, &r.links); err != nil {
		return err
	}
	if err := r.pause(false); err != nil {
		return err
	}
	if r.options.Causes {
		return r.RecordCauses(true)
	}
	return nil
}

// pause stops or resumes observing new packets; packets that are inside the router are still observed.
func (r *Router) pause(on bool) error {
	value := uint32(0)
	if on {
		value = 1
	}
	if err := r.collection.Variables[routerVarPaused].Set(value); err != nil {
		return fmt.Errorf("pause router: %w", err)
	}
	return nil
}

// trace attaches programs to their tracepoints, except those that the kernel lacks.
func (r *Router) trace(names []string, links *[]link.Link) error {
	for _, name := range names {
		program := r.collection.Programs[name]
		if program == nil {
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		*links = append(*links, l)
	}
	return nil
}

// RecordCauses starts or stops recording the causes of coffee breaks. Recording costs two runs of a program for
// each softirq, and one for each switch between processes. A break that began before has only the causes that were
// recorded during it.
func (r *Router) RecordCauses(on bool) error {
	var since uint64
	var err error
	switch recorded := len(r.causes) > 0; {
	case on == recorded:
		return nil
	case on:
		if since, err = monotonic(); err == nil {
			err = r.trace(causeTracepoints, &r.causes)
		}
	default:
		err = closeLinks(&r.causes)
	}
	if err = errors.Join(err, r.collection.Variables[routerVarCausesSince].Set(since)); err != nil {
		return fmt.Errorf("record causes of breaks: %w", err)
	}
	return nil
}

func (r *Router) attachFilters() error {
	for _, f := range filters {
		for _, family := range []link.NetfilterProtocolFamily{link.NetfilterProtoIPv4, link.NetfilterProtoIPv6} {
			l, err := attachFilter(link.NetfilterOptions{
				Program: r.collection.Programs[f.program], ProtocolFamily: family, Hook: f.hook, Priority: f.priority,
			})
			if errors.Is(err, unix.EAFNOSUPPORT) && family == link.NetfilterProtoIPv6 {
				continue // a kernel without IPv6
			}
			if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("attach %s: %w: CONFIG_NETFILTER_BPF_LINK, since 6.4, is needed: %w", f.program, hook.ErrOldKernel, err)
			}
			if err != nil {
				return fmt.Errorf("attach %s: %w", f.program, err)
			}
			r.links = append(r.links, l)
		}
	}
	return nil
}

// attachFilter takes the outermost place that is free.
func attachFilter(o link.NetfilterOptions) (l link.Link, err error) {
	step := int32(1)
	if o.Priority > 0 {
		step = -1
	}
	for range places {
		if l, err = link.AttachNetfilter(o); !errors.Is(err, unix.EBUSY) {
			return l, err
		}
		o.Priority += step
	}
	return nil, fmt.Errorf("%d profiles run here: %w", places, err)
}

// inNamespace runs f on a thread in the router's namespace. A thread that cannot come
// back ends.
func (r *Router) inNamespace(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			result <- fmt.Errorf("open own namespace: %w", err)
			return
		}
		defer home.Close()
		if err := netns.Set(r.namespace); err != nil {
			result <- fmt.Errorf("enter namespace: %w", err)
			return
		}
		result <- f()
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
	}()
	return <-result
}

// detach detaches the programs, beginnings first.
func (r *Router) detach() error {
	return errors.Join(closeLinks(&r.links), closeLinks(&r.causes))
}

// closeLinks closes links in the reverse order.
func closeLinks(links *[]link.Link) error {
	var err error
	for _, l := range slices.Backward(*links) {
		err = errors.Join(err, l.Close())
	}
	*links = nil
	return err
}
