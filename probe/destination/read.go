package destination

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
)

// readBatch is how many flows the program hands over in one run: COLLECT_FLOWS of
// collect.h.
const readBatch = 128

// testFrame is a frame for programs that do not look at it.
var testFrame = make([]byte, 64)

// reading is one interval.
type reading struct {
	by     Granularity
	groups map[flow.Key]*change

	// Of one run of a program.
	keys  []flow.Raw
	flows []destinationFlow
	pages []destinationCollectedPage
}

func newReading(by Granularity) *reading {
	return &reading{
		by: by, groups: map[flow.Key]*change{}, keys: make([]flow.Raw, readBatch), flows: make([]destinationFlow, readBatch),
	}
}

// Read ends an interval: a row for each group of flows with new packets, most packets
// first. It also removes flows that have been idle, and, when the table is three
// quarters full, those that have been idle longest.
func (d *Destination) Read(by Granularity) ([]Row, error) {
	r := newReading(by)
	if err := d.followStep(); err != nil {
		return nil, fmt.Errorf("follow clock: %w", err)
	}
	if err := d.readFlows(r); err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	if err := d.settle(r); err != nil {
		return nil, fmt.Errorf("account for reports: %w", err)
	}
	if err := d.readBlocks(r); err != nil {
		return nil, err
	}
	owed, err := d.sweep(r)
	if err != nil {
		return nil, fmt.Errorf("remove flows: %w", err)
	}
	for _, c := range r.groups {
		d.total.add(c)
	}
	d.total.Lost -= min(d.total.Lost, owed)
	d.stepped = false
	return rows(r.groups), nil
}

// readFlows enters every flow with new packets.
func (d *Destination) readFlows(r *reading) error {
	d.pass++
	if err := d.objects.CollectPass.Set(d.pass); err != nil {
		return err
	}
	for more := uint32(1); more > 0; {
		if err := d.collect(r, d.objects.DestinationCollect); err != nil {
			return err
		}
		if err := d.objects.CollectMore.Get(&more); err != nil {
			return err
		}
	}
	return nil
}

// collect runs a program that hands over flows, and enters them.
func (d *Destination) collect(r *reading, program *ebpf.Program) error {
	if _, err := program.Run(&ebpf.RunOptions{Data: testFrame}); err != nil {
		return err
	}
	var flows, pages uint32
	if err := errors.Join(d.objects.Collected.Get(&flows), d.objects.CollectedSpills.Get(&pages)); err != nil {
		return err
	}
	if err := firstOf(d.objects.CollectedKeys, r.keys[:flows]); err != nil {
		return err
	}
	if err := firstOf(d.objects.CollectedFlows, r.flows[:flows]); err != nil {
		return err
	}
	r.pages = slices.Grow(r.pages[:0], int(pages))[:pages]
	if err := firstOf(d.objects.CollectedPages, r.pages); err != nil {
		return err
	}
	states, err := d.readStates(int(flows))
	if err != nil {
		return err
	}
	changes := make([]*change, flows)
	for i := range changes {
		changes[i] = d.advance(r.keys[i], &r.flows[i])
		changes[i].states = states[i]
	}
	for i := range r.pages {
		p := &r.pages[i]
		changes[p.Flow].enterPage(int(p.Page), &p.Buckets)
	}
	for i, c := range changes {
		d.leaveOut(d.flows[r.keys[i]], c)
		if c.Counts != (Counts{}) { // else only packets that do not count yet
			r.enter(r.keys[i].Marked(), c)
		}
	}
	return nil
}

// enter adds what is new of a flow to its group.
func (r *reading) enter(key flow.Key, c *change) {
	group := r.by.key(key)
	if g := r.groups[group]; g != nil {
		g.add(c)
	} else {
		r.groups[group] = c
	}
}

// firstOf reads the first values of an array.
func firstOf[V any](array *ebpf.Map, values []V) error {
	if len(values) == 0 {
		return nil
	}
	var cursor ebpf.MapBatchCursor
	n, err := array.BatchLookup(&cursor, make([]uint32, len(values)), values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	if n < len(values) {
		return fmt.Errorf("%d of %d values", n, len(values))
	}
	return nil
}

// advance returns what is new of a flow.
func (d *Destination) advance(key flow.Raw, f *destinationFlow) *change {
	s := d.flows[key]
	if s == nil {
		if s = d.absent[key]; s == nil {
			s = &state{}
		}
		delete(d.absent, key)
		d.flows[key] = s
	}
	return s.advance(f)
}

func rows(groups map[flow.Key]*change) []Row {
	result := make([]Row, 0, len(groups))
	for key, c := range groups {
		result = append(result, Row{
			Key: key, Counts: c.Counts, Delay: c.delay.summary(), Variation: c.variation.summary(), Announced: c.announced, values: c,
		})
	}
	slices.SortFunc(result, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Key.Sport, b.Key.Sport))
	})
	return result
}

// sweep removes flows. What came between reading and removing goes into the rows. It
// returns the losses that can no longer be paid back.
func (d *Destination) sweep(r *reading) (owed uint64, err error) {
	now := uint64(d.clock.Now().UnixNano())
	var old, rest []flow.Raw
	for key, s := range d.flows {
		if s.lastNs+uint64(d.settings.Idle) < now {
			old = append(old, key)
		} else {
			rest = append(rest, key)
		}
	}
	expired := len(old)
	if len(rest) > d.settings.Flows*3/4 {
		slices.SortFunc(rest, func(a, b flow.Raw) int {
			return cmp.Compare(d.flows[a].lastNs, d.flows[b].lastNs)
		})
		old = append(old, rest[:len(rest)-d.settings.Flows/2]...)
	}
	for first := 0; first < len(old); {
		removed, err := d.remove(r, old[first:min(first+readBatch, len(old))])
		if err != nil {
			return 0, err
		}
		for _, key := range old[first : first+removed] {
			owed += d.flows[key].owed
			d.leave(key, d.flows[key])
			delete(d.flows, key)
			if first < expired {
				d.expired++
			} else {
				d.evicted++
			}
			first++
		}
		if removed == 0 { // packets of the flow keep it from being removed
			first++
		}
	}
	return owed, nil
}

// remove takes flows out of the table. It returns how many of them are gone, from the
// first on; one at least unless the first contends for long.
func (d *Destination) remove(r *reading, keys []flow.Raw) (int, error) {
	positions := make([]uint32, len(keys))
	for i := range positions {
		positions[i] = uint32(i)
	}
	if _, err := d.objects.LeavingKeys.BatchUpdate(positions, keys, nil); err != nil {
		return 0, err
	}
	if err := d.objects.Leaving.Set(uint32(len(keys))); err != nil {
		return 0, err
	}
	if err := d.collect(r, d.objects.DestinationRemove); err != nil {
		return 0, err
	}
	var removed uint32
	err := d.objects.Removed.Get(&removed)
	return int(removed), err
}
