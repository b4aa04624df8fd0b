package runner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/probe/destination"
)

const (
	// hopPathsMost bounds the paths of a pair of addresses in an interval; of further ones only
	// the delay end to end is kept, under the path hopPathOther.
	hopPathsMost = 64
	hopPathOther = "other"
	// hopPairsMost bounds the pairs of addresses in an interval. Traces of further ones are
	// counted only.
	hopPairsMost = 4096
	// stampNs bounds the error of a delay that begins or ends at a router: the kernel cuts its
	// time stamps to whole microseconds, so each is early by less than that.
	stampNs = 1000
	// wholeStampNs bounds the error of a delay between source and destination, whose time stamps are rounded to
	// nanoseconds.
	wholeStampNs = 1
)

// hopDelays collects the traces of a session in an interval, by pair of addresses and path.
// The zero value is empty.
type hopDelays struct {
	pairs map[hopPair]map[string]*hopPath
	// read and dropped count the traces since the task began: read are counted in rows, dropped are of pairs beyond
	// the limit.
	read, dropped uint64
}

type hopPair struct{ src, dst netip.Addr }

// hopPath is one sequence of nodes.
type hopPath struct {
	agent               string
	nodes               []destination.TraceNode // of its first trace
	skipped             []int                   // for each hop, the least; -1: unknown
	packets, overflowed uint64
	delays              []flows.Distribution // by hop; hop 0 is the whole path
}

// add counts a trace of a packet that an agent sent.
func (h *hopDelays) add(agent string, t *destination.Trace) {
	pair := hopPair{t.Key.Src, t.Key.Dst}
	paths := h.pairs[pair]
	if paths == nil {
		if len(h.pairs) >= hopPairsMost {
			h.dropped++
			return
		}
		if h.pairs == nil {
			h.pairs = map[hopPair]map[string]*hopPath{}
		}
		paths = map[string]*hopPath{}
		h.pairs[pair] = paths
	}
	h.read++
	name := pathName(t.Nodes)
	p := paths[name]
	if p == nil {
		if len(paths) >= hopPathsMost {
			name = hopPathOther
		}
		if p = paths[name]; p == nil {
			p = newHopPath(agent, name, t.Nodes)
			paths[name] = p
		}
	}
	p.add(t)
}

// pathName is the column path of the stream.
func pathName(nodes []destination.TraceNode) string {
	var name strings.Builder
	for i, n := range nodes {
		if i > 0 {
			name.WriteByte(' ')
		}
		name.WriteString(nodeName(n.ID))
		if n.TimeNs == 0 {
			name.WriteByte('?')
		}
	}
	return name.String()
}

func nodeName(id uint64) string { return fmt.Sprintf("0x%06x", id) }

func newHopPath(agent, name string, nodes []destination.TraceNode) *hopPath {
	p := &hopPath{agent: agent}
	if name == hopPathOther {
		p.delays = make([]flows.Distribution, 1)
		return p
	}
	p.nodes = slices.Clone(nodes)
	p.delays, p.skipped = make([]flows.Distribution, len(nodes)+2), make([]int, len(nodes)+2)
	for i := range p.skipped {
		p.skipped[i] = -1
	}
	return p
}

func (p *hopPath) add(t *destination.Trace) {
	p.packets++
	if t.Overflow {
		p.overflowed++
	}
	for hop, delay := range hopsOf(t) {
		if delay.known && hop < len(p.delays) {
			p.delays[hop].Add(delay.ns)
		}
	}
	if p.nodes == nil {
		return
	}
	for i := 1; i < len(t.Nodes); i++ {
		before, here := t.Nodes[i-1].HopLimit, t.Nodes[i].HopLimit
		if here == 0 || before <= here {
			continue
		}
		if s := int(before) - int(here) - 1; p.skipped[i+1] < 0 || s < p.skipped[i+1] {
			p.skipped[i+1] = s
		}
	}
}

// hopDelay is the delay of a hop of a packet.
type hopDelay struct {
	ns    int64
	known bool
}

// hopsOf returns the delays of a packet by hop. The delays of hops 1 and up add up exactly to the delay of hop 0,
// the whole path: each hop begins where the one before it ended. The delay of a hop to a node that wrote no time is
// unknown, and the next hop begins where that one did.
func hopsOf(t *destination.Trace) []hopDelay {
	delays := make([]hopDelay, 1, len(t.Nodes)+2)
	last := t.SentNs
	if last != 0 {
		delays[0] = hopDelay{t.ReceivedNs - last, true}
	}
	for _, n := range t.Nodes {
		if n.TimeNs == 0 {
			delays = append(delays, hopDelay{})
			continue
		}
		delays = append(delays, hopDelay{n.TimeNs - last, last != 0})
		last = n.TimeNs
	}
	return append(delays, hopDelay{t.ReceivedNs - last, last != 0})
}

// HopRow is a hop in an interval: a row of the stream hop_delays, whose columns describe the
// fields, but for what all rows of a session have in common.
type HopRow struct {
	Src, Dst             netip.Addr
	Path, Node, Previous string
	Hop                  int
	Skipped              int // -1: unknown
	Packets, Overflowed  uint64
	Delay                *flows.Distribution
	UncertaintyNs        int64
	agent                string
	// ends: the hop begins at the source and ends at the destination.
	ends bool
}

// take returns the rows of the interval, in order, and begins another one.
func (h *hopDelays) take() []HopRow {
	var rows []HopRow
	pairs := slices.SortedFunc(maps.Keys(h.pairs), func(a, b hopPair) int {
		return cmp.Or(a.src.Compare(b.src), a.dst.Compare(b.dst))
	})
	for _, pair := range pairs {
		paths := h.pairs[pair]
		for _, name := range slices.Sorted(maps.Keys(paths)) {
			rows = paths[name].rows(rows, pair, name)
		}
	}
	h.pairs = nil
	return rows
}

func (p *hopPath) rows(rows []HopRow, pair hopPair, name string) []HopRow {
	previous := ""
	for hop := range p.delays {
		row := HopRow{
			Src: pair.src, Dst: pair.dst, Path: name, Hop: hop, Skipped: -1, Previous: previous,
			Packets: p.packets, Overflowed: p.overflowed, Delay: &p.delays[hop], UncertaintyNs: stampNs, agent: p.agent,
		}
		if hop > 0 {
			row.Skipped = p.skipped[hop]
		}
		if hop > 0 && hop <= len(p.nodes) {
			node := p.nodes[hop-1]
			row.Node = nodeName(node.ID)
			if node.TimeNs != 0 {
				previous = row.Node
			}
		} else if row.Previous == "" {
			row.ends, row.UncertaintyNs = true, wholeStampNs
		}
		rows = append(rows, row)
	}
	return rows
}

// takeTraces adds the traces that came since the last call.
func (d *deviceDestination) takeTraces() {
	if !d.reads.traces {
		return
	}
	if err := d.probe.ReadTraces(d.giveTrace); err != nil {
		d.err = errors.Join(d.err, err)
		d.log.Warn("read traces", "device", d.device.Name, "error", err)
	}
}

// giveTrace adds a trace to the sessions that asked for hops.
func (d *deviceDestination) giveTrace(t *destination.Trace) {
	for _, r := range d.subscribers {
		if r.task.Hops && r.task.wants(t.Key) {
			r.hops.add(r.task.agentOf(t.Key), t)
		}
	}
}

// emitHops delivers the hops of a period.
func (d *deviceDestination) emitHops(r *subscriber, now moment, own flows.Bound) {
	for _, row := range r.hops.take() {
		sample := measure.Sample{
			measure.TimeValue(now.day), measure.StringValue(r.task.Session), measure.StringValue(row.agent),
			measure.StringValue(d.device.Name), measure.StringValue(addressText(row.Src)), measure.StringValue(addressText(row.Dst)),
			measure.StringValue(row.Path), measure.Uint32Value(uint32(row.Hop)), measure.StringValue(row.Node), measure.StringValue(row.Previous),
			known(row.Skipped >= 0, measure.Uint32Value(uint32(row.Skipped))), measure.DurationValue(r.period.length(now)),
			measure.Uint64Value(row.Packets), measure.Uint64Value(row.Overflowed), measure.Uint64Value(row.Delay.Count),
		}
		for _, v := range []func(*flows.Distribution) int64{
			func(d *flows.Distribution) int64 { return d.Min },
			(*flows.Distribution).WholeMean,
			func(d *flows.Distribution) int64 { return int64(d.Quantile(0.5)) },
			func(d *flows.Distribution) int64 { return int64(d.Quantile(0.99)) },
			func(d *flows.Distribution) int64 { return d.Max },
		} {
			value := measure.Value{}
			if row.Delay.Count > 0 {
				value = measure.Int64Value(v(row.Delay))
			}
			sample = append(sample, value)
		}
		bound := flows.Bound{}
		if row.ends && row.Delay.Count > 0 {
			bound = d.clocks(row.agent, own)
		}
		d.sink(&measure.HopDelays, append(sample, measure.Int64Value(row.UncertaintyNs), known(bound.Known, measure.Int64Value(bound.Ns))))
	}
}

// known is the value, or null.
func known(is bool, value measure.Value) measure.Value {
	if is {
		return value
	}
	return measure.Value{}
}

// clocks bounds the error of this host's clock and of an agent's together.
func (d *deviceDestination) clocks(agent string, own flows.Bound) flows.Bound {
	if slices.Contains(d.pulse.SameClock, agent) {
		return flows.BoundOf(0)
	}
	ns, known := d.pulse.ClockErrorNs[agent]
	return flows.Bound{Ns: own.Ns + ns, Known: own.Known && known}
}
