package runner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/probe/block"
	"pillion.dev/probe/destination"
	"pillion.dev/session"
	"pillion.dev/wire/fivetuple"
)

// enterBlocks delivers what was sent in blocks that are over, at once: the destination waits for it.
func (r *sentReader) enterBlocks() {
	if !slices.ContainsFunc(r.tasks, func(t *sentTask) bool { return t.Block > 0 }) {
		return
	}
	counts, missed, err := r.blocks()
	if r.missed = missed; err != nil {
		r.err = err
		r.log.Warn("read blocks", "device", r.device, "error", err)
		return
	}
	rows := 0
	for i := range counts {
		for _, t := range r.tasks {
			if time.Duration(t.Block) != counts[i].Period || !t.measures(counts[i].Key) {
				continue
			}
			if rows++; rows > sentRowsMost {
				t.deferred++ // for good: a block has no later row
				continue
			}
			r.sink(&measure.Sent, r.blockRow(t, &counts[i]))
		}
	}
}

func (r *sentReader) blockRow(t *sentTask, c *block.Count) measure.Sample {
	marked := measure.Value{}
	if !c.Marked.IsZero() {
		marked = measure.Int64Value(c.Marked.UnixNano())
	}
	return measure.Sample{
		measure.TimeValue(c.End()), measure.StringValue(t.Session), measure.StringValue(t.peers[c.Key.Dst]),
		measure.StringValue(r.device), measure.StringValue(addressText(c.Key.Src)), measure.StringValue(addressText(c.Key.Dst)),
		measure.StringValue(fivetuple.ProtocolName(c.Key.Protocol)),
		measure.Uint32Value(uint32(c.Key.Sport)), measure.Uint32Value(uint32(c.Key.Dport)),
		measure.Int64Value(int64(c.Period)), measure.Uint64Value(c.Packets),
		{}, {}, {}, measure.Uint64Value(c.Number), marked,
	}
}

// blocksMissed returns the blocks of a session that were not read in time.
func (r *sentReader) blocksMissed(session string) uint64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.tasks, func(t *sentTask) bool { return t.Session == session && t.Block > 0 }) {
		return r.missed
	}
	return 0
}

// blockOf is the length of the blocks that the tasks on a device count; 0: no task counts blocks. If the tasks have
// different lengths, only blocks of the first one's length have figures.
func blockOf(tasks []destinationTask) time.Duration {
	for _, task := range tasks {
		if task.Block > 0 {
			return time.Duration(task.Block)
		}
	}
	return 0
}

// blockReport is what a source sent in a block. whole: marks have been read since before it began
func blockReport(report *session.SentReport, f *session.SentFlow, whole bool) destination.BlockReport {
	b := destination.BlockReport{Whole: whole, Count: block.Count{
		Key: f.Key(), Period: time.Duration(report.Interval), Number: f.Block, Packets: f.Packets,
	}}
	if f.MarkedNs != 0 {
		b.Marked = time.Unix(0, f.MarkedNs).UTC()
	}
	return b
}

// apart are reports of blocks for which the clocks of the two ends differ too much.
type apart struct {
	packets uint64
	sources map[string]flows.Bound // of the clocks of each source and of this host
}

// fits reports whether the clocks of both ends agree to within half a block, so that packets are counted in their
// own block. Otherwise it counts the packets of the block as left out.
func (a *apart) fits(source string, bound flows.Bound, block time.Duration, packets uint64) bool {
	if bound.Known && time.Duration(bound.Ns) < block/2 {
		delete(a.sources, source)
		return true
	}
	a.packets += packets
	if a.sources == nil {
		a.sources = map[string]flows.Bound{}
	}
	a.sources[source] = bound
	return false
}

// limit says whose blocks have no figures, and why; empty: all have.
func (a *apart) limit(block time.Duration) string {
	const named = 3
	var texts []string
	for i, source := range slices.Sorted(maps.Keys(a.sources)) {
		if i == named {
			texts = append(texts, fmt.Sprintf("%d other sources", len(a.sources)-named))
			break
		}
		text := "clock error unknown"
		if bound := a.sources[source]; bound.Known {
			text = "error bounds of both clocks " + time.Duration(bound.Ns).Round(time.Millisecond).String()
		}
		texts = append(texts, fmt.Sprintf("%s (%s)", source, text))
	}
	if len(texts) == 0 {
		return ""
	}
	return fmt.Sprintf("altmark has no figures of packets from %s: the clocks must agree to half a block of %v; synchronise them, or choose longer blocks", strings.Join(texts, ", "), block)
}

// settleBlock passes on what a source sent in a block. now: by the monotonic clock
func (d *deviceDestination) settleBlock(r *subscriber, report *session.SentReport, f *session.SentFlow, now time.Duration) {
	period := time.Duration(r.task.Block)
	if period == 0 || time.Duration(report.Interval) != period {
		r.counters["sent_packets_refused"] += f.Packets
		return
	}
	if !r.apart.fits(report.Source, d.clocks(report.Source, d.clockError), period, f.Packets) {
		return
	}
	since := time.Duration(report.Age) + period + period/2
	whole := now-r.began >= since && len(session.Devices(r.task.Device)) < 2
	d.probe.SettleBlocks([]destination.BlockReport{blockReport(report, f, whole)})
}
