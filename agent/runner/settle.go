package runner

import (
	"net"
	"net/netip"
	"time"

	"pillion.dev/probe/destination"
	"pillion.dev/session"
	"pillion.dev/wire"
)

const (
	// settleAfter is how long packets that were sent before a report may still be on their way
	// without counting as lost.
	settleAfter = time.Second
	// settleMost bounds the flows of reports that wait; the oldest reports give way.
	settleMost = 65536
)

// waitingReport is a report whose packets may still be on their way.
type waitingReport struct {
	due   time.Duration // by the monotonic clock
	flows []destination.Report
}

// Settle takes reports of what sources have sent. Packets in a report that have not arrived here after a second
// count as lost.
func (r *Runner) Settle(reports []session.SentReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range reports {
		for _, d := range r.destinations {
			d.settle(&reports[i], r.ownAddresses)
		}
	}
}

// learnAddresses notes the host's addresses. Flows to other addresses do not end here, or have another destination
// address when they arrive (NAT).
func (r *Runner) learnAddresses() {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		r.options.Log.Warn("list addresses", "error", err)
		return
	}
	own := map[netip.Addr]bool{}
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own[prefix.Addr().Unmap()] = true
		}
	}
	r.ownAddresses = own
}

// settle keeps the parts of a report that are about flows which this device measures.
func (d *deviceDestination) settle(report *session.SentReport, own map[netip.Addr]bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now().steady
	for _, r := range d.subscribers {
		if r.task.local != nil || r.task.Session != report.Session {
			continue
		}
		// Marks have been read since before the interval; on several devices, another may have
		// the flow.
		reading := now-r.began >= time.Duration(report.Age)+time.Duration(report.Interval)
		whole := reading && len(session.Devices(r.task.Device)) < 2
		var flows []destination.Report
		for i := range report.Flows {
			f := &report.Flows[i]
			key := f.Key()
			key.Ingress = r.task.numbers[report.Source]
			if r.task.agentOf(key) != report.Source || !(own[key.Dst] || contains(r.task.behind, key.Dst)) || !r.task.wants(key) {
				r.counters["sent_packets_refused"] += uint64((f.Next-f.First)&wire.SequenceMask) + f.Packets
				continue
			}
			if f.Block != 0 {
				d.settleBlock(r, report, f, now)
				continue
			}
			flows = append(flows, destination.Report{Key: key,
				Start: f.Start & wire.SequenceMask, First: f.First & wire.SequenceMask, Next: f.Next & wire.SequenceMask, Whole: whole,
			})
		}
		d.wait(now+settleAfter, flows)
		return
	}
}

func (d *deviceDestination) wait(due time.Duration, flows []destination.Report) {
	if len(flows) == 0 {
		return
	}
	d.waiting = append(d.waiting, waitingReport{due, flows})
	d.waitingFlows += len(flows)
	for d.waitingFlows > settleMost && len(d.waiting) > 1 {
		d.dropped += uint64(len(d.waiting[0].flows))
		d.waitingFlows -= len(d.waiting[0].flows)
		d.waiting = d.waiting[1:]
	}
}

// settleDue passes on the reports that have waited long enough, or all.
func (d *deviceDestination) settleDue(now time.Duration, all bool) {
	for len(d.waiting) > 0 && (all || d.waiting[0].due <= now) {
		d.probe.Settle(d.waiting[0].flows)
		d.waitingFlows -= len(d.waiting[0].flows)
		d.waiting = d.waiting[1:]
	}
}
