package router

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// backlogs is the key of the processors' backlog among the kernel's depths; interfaces
// have their indexes.
const backlogs = 0

// kernelDepths are what waits now according to the kernel: in the backlogs of all
// processors, and in the qdiscs of each interface. What it does not tell is missing.
func (r *Router) kernelDepths() map[int]uint64 {
	depths := map[int]uint64{}
	if text, err := os.ReadFile("/proc/net/softnet_stat"); err == nil {
		depths[backlogs] = parseSoftnet(string(text))
	}
	qdiscs, err := r.interfaces.QdiscList(nil)
	if err != nil {
		return depths
	}
	for _, q := range qdiscs {
		attributes := q.Attrs()
		if attributes.Parent == netlink.HANDLE_ROOT && attributes.Statistics != nil && attributes.Statistics.Queue != nil {
			depths[attributes.LinkIndex] = uint64(attributes.Statistics.Queue.Qlen)
		}
	}
	return depths
}

// parseSoftnet adds up the column of the backlogs, which is there since 5.10.
func parseSoftnet(text string) (sum uint64) {
	const column = 11
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) <= column {
			continue
		}
		if n, err := strconv.ParseUint(fields[column], 16, 32); err == nil {
			sum += n
		}
	}
	return sum
}

// findBacklogs lets the programs learn where each processor's backlog is: from the poll
// that one packet to ourselves causes there. Afterwards nothing of it stays attached.
// Where it fails, input queues go without the kernel's depth, and Queue.Compared tells.
func (r *Router) findBacklogs() error {
	program := r.collection.Programs[routerProgRouterNapiPoll]
	if program == nil || r.collection.Variables == nil {
		return nil
	}
	poll, err := link.AttachTracing(link.TracingOptions{Program: program})
	if err != nil {
		return fmt.Errorf("attach %s: %w", routerProgRouterNapiPoll, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never back: the thread ends with its affinity
		r.pollBacklogs()
	}()
	<-done
	return poll.Close()
}

func (r *Router) pollBacklogs() {
	const attempts = 3
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return
	}
	defer c.Close()
	var each []routerProcessor
	for range attempts {
		if r.collection.Maps[routerMapProcessors].Lookup(uint32(0), &each) != nil {
			return
		}
		for cpu := range each {
			if each[cpu].Backlog != 0 {
				continue
			}
			var set unix.CPUSet
			set.Set(cpu)
			if unix.SchedSetaffinity(0, &set) == nil {
				c.WriteTo([]byte{0}, c.LocalAddr())
			}
		}
	}
}
