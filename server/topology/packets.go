package topology

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"pillion.dev/measure"
	"pillion.dev/server/event"
	"pillion.dev/session"
)

const (
	// pathOther is the name of all paths of a pair beyond those that its destination tells apart.
	pathOther = "other"
	// partialMost bounds the packet traces of which rows are missing.
	partialMost = 1024
)

// packetTrace is what rows of one path, pair and interval in the stream hop_delays share.
type packetTrace struct {
	key
	time               time.Time
	session, src, name string
}

// packetPath is a path that packets took in an interval.
type packetPath struct {
	nodes      []string // identifiers, in order
	delays     []OneWay // by hop; hop 0 is the whole path
	skipped    []int    // by hop
	found      int      // rows read
	packets    uint64
	overflowed uint64
	interval   time.Duration
	// other are packets of the pair that took another path in that interval.
	other uint64
}

func (p *packetPath) complete() bool { return p.found == len(p.delays) }

// or merges what packets of one pair and interval show: the path that most of them took counts.
// Packets on the same path from another address of the source show nothing else.
func (p *packetPath) or(q *packetPath) *packetPath {
	if p == nil {
		return q
	}
	if p.packets > q.packets {
		p, q = q, p
	}
	joined := *q
	joined.other += p.other
	if !slices.Equal(p.nodes, q.nodes) {
		joined.other += p.packets
	}
	return &joined
}

// route is the route of the path to an address.
func (p *packetPath) route(address string) route {
	r := route{hops: make([]place, 0, len(p.nodes)+1), reached: true}
	for _, node := range p.nodes {
		r.hops = append(r.hops, place{node: node})
	}
	return route{hops: append(r.hops, place{address: netip.MustParseAddr(address).Unmap().WithZone("")}), reached: true}
}

// show fills in a path of the graph. clocked adds what is known of the clocks.
func (p *packetPath) show(shown *Path, clocked func(hop int, delay OneWay) OneWay) {
	shown.Kind, shown.OneWay = IOAM, clocked(0, p.delays[0])
	shown.IntervalNs, shown.OtherPackets, shown.Overflowed = int64(p.interval), p.other, p.overflowed
	for hop := 1; hop < len(p.delays); hop++ {
		shown.Hops = append(shown.Hops, Hop{
			TraceHop: session.TraceHop{TTL: hop}, OneWay: clocked(hop, p.delays[hop]), Skipped: p.skipped[hop],
		})
	}
}

var nodePattern = regexp.MustCompile(`^0x[0-9a-f]{6,16}\??$`)

// AddDelays takes rows of the stream hop_delays that an agent, the destination, delivered. Rows
// of one path may be spread over several records. An invalid path is skipped and is part of the
// error, which is ErrTrace; the others are added.
func (t *Topology) AddDelays(agent string, record arrow.RecordBatch) error {
	columns, err := columnsOf(record, &measure.HopDelays)
	if err != nil {
		return fmt.Errorf("add delays of hops to %q: %w", agent, err)
	}
	t.mu.Lock()
	read := map[packetTrace]*packetPath{}
	for i := range int(record.NumRows()) {
		err = errors.Join(err, t.readDelay(agent, rowOf{columns, i}, read))
	}
	changes := t.addDelays(read)
	t.mu.Unlock()
	for _, change := range changes {
		t.events.Event(change)
	}
	if err != nil {
		return fmt.Errorf("add delays of hops to %q: %w", agent, err)
	}
	return nil
}

// readDelay adds a row to the paths of a record, or to the one that waits for it.
func (t *Topology) readDelay(agent string, row rowOf, read map[packetTrace]*packetPath) error {
	of := packetTrace{
		key:  key{row.text("source"), agent, row.text("dst"), IOAM},
		time: row.value("time").Time(), session: row.text("session"), src: row.text("src"), name: row.text("path"),
	}
	if of.source == "" {
		return nil // nobody knows where the path begins
	}
	path := read[of]
	if path == nil {
		if path = t.partial[of]; path == nil {
			var err error
			if path, err = newPacketPath(of); err != nil {
				return err
			}
		}
		delete(t.partial, of)
		read[of] = path
	}
	hop := row.value("hop").Uint64()
	if hop >= uint64(len(path.delays)) || path.delays[hop].UncertaintyNs != 0 {
		return fmt.Errorf("%w: hop %d of path %q, which has %d, or twice", ErrTrace, hop, of.name, len(path.delays)-1)
	}
	path.found++
	path.packets, path.overflowed = row.value("packets").Uint64(), row.value("overflowed").Uint64()
	path.interval = time.Duration(row.value("interval_ns").Int64())
	path.skipped[hop] = int(min(row.value("skipped").Uint64(), hopsMost))
	clock := row.value("clock_error_ns")
	path.delays[hop] = OneWay{
		Packets: row.value("delay_count").Uint64(), MinNs: row.value("delay_min_ns").Int64(), MeanNs: row.value("delay_mean_ns").Int64(),
		P50Ns: row.value("delay_p50_ns").Int64(), P99Ns: row.value("delay_p99_ns").Int64(), MaxNs: row.value("delay_max_ns").Int64(),
		UncertaintyNs: max(1, row.value("uncertainty_ns").Int64()), ClockErrorNs: max(0, clock.Int64()), ClockKnown: !clock.IsNull(),
	}
	return nil
}

// newPacketPath has the nodes of a path's name.
func newPacketPath(of packetTrace) (*packetPath, error) {
	if err := check(of.key, of.session, &session.TraceResult{Source: of.src, Time: of.time}); err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddr(of.address); err != nil || len(of.name) > textMost {
		return nil, fmt.Errorf("%w: path %.64q to address %.64q", ErrTrace, of.name, of.address)
	}
	path := &packetPath{}
	if of.name == pathOther {
		path.delays, path.skipped = make([]OneWay, 1), make([]int, 1)
		return path, nil
	}
	for node := range strings.FieldsSeq(of.name) {
		if !nodePattern.MatchString(node) {
			return nil, fmt.Errorf("%w: path %.64q has node %.64q", ErrTrace, of.name, node)
		}
		path.nodes = append(path.nodes, strings.TrimSuffix(node, "?"))
	}
	path.delays, path.skipped = make([]OneWay, len(path.nodes)+2), make([]int, len(path.nodes)+2)
	return path, nil
}

// addDelays adds the complete paths, each pair's in one, and keeps the others until their rows
// have come.
func (t *Topology) addDelays(read map[packetTrace]*packetPath) (changes []event.Event) {
	type interval struct {
		key
		time    time.Time
		session string
	}
	joined, others := map[interval]*packetPath{}, map[interval]uint64{}
	sources := map[interval]string{}
	for of, path := range read {
		at := interval{of.key, of.time, of.session}
		switch {
		case !path.complete():
			t.keepPartial(of, path)
		case of.name == pathOther:
			others[at] += path.packets
		default:
			joined[at] = joined[at].or(path)
			sources[at] = of.src
		}
	}
	order := slices.SortedFunc(maps.Keys(joined), func(a, b interval) int { return a.time.Compare(b.time) })
	for _, at := range order {
		path := joined[at]
		path.other += others[at]
		result := session.TraceResult{Time: at.time, Source: sources[at], Address: at.address, Protocol: IOAM, Reached: true}
		if change, changed := t.add(at.key, at.session, result, nil, path); changed {
			changes = append(changes, change)
		}
	}
	return changes
}

func (t *Topology) keepPartial(of packetTrace, path *packetPath) {
	if len(t.partial) >= partialMost {
		clear(t.partial) // their rows have not come; the next interval has others
	}
	t.partial[of] = path
}
