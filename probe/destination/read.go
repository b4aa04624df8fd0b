package destination

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
)

// readBatch is how many flows one system call reads.
const readBatch = 128

// Read ends an interval: a row for each group of flows in which something came,
// most packets first. It also removes flows that have been idle, and, when the
// table is three quarters full, those that have been idle longest.
func (d *Destination) Read(by Granularity) ([]Row, error) {
	tag := uint64(d.epoch) + 1
	d.epoch++
	if err := d.objects.Epoch.Set(d.epoch); err != nil {
		return nil, fmt.Errorf("begin interval: %w", err)
	}
	groups := map[flow.Key]*change{}
	err := d.each(func(key flow.Raw, f *destinationFlow) {
		d.enter(groups, by, key, f, tag)
	})
	if err != nil {
		return nil, err
	}
	if err := d.sweep(groups, by, tag); err != nil {
		return nil, err
	}
	return rows(groups), nil
}

// each reads every flow in the table.
func (d *Destination) each(f func(flow.Raw, *destinationFlow)) error {
	keys := make([]flow.Raw, readBatch)
	values := make([]destinationFlow, readBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := d.objects.Flows.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("read flows: %w", err)
		}
		for i := range n {
			f(keys[i], &values[i])
		}
		if err != nil {
			return nil
		}
	}
}

func (d *Destination) enter(groups map[flow.Key]*change, by Granularity, key flow.Raw, f *destinationFlow, tag uint64) {
	s := d.flows[key]
	if s == nil {
		s = &state{}
		d.flows[key] = s
	}
	if f.Packets == s.last.Packets {
		return
	}
	c := s.advance(f, tag)
	d.addTotal(c)
	group := by.key(key.Key())
	if g := groups[group]; g == nil {
		groups[group] = c
	} else {
		g.add(c)
	}
}

func (d *Destination) addTotal(c *change) {
	if d.total.delay.positive == nil {
		d.total = newTotals()
	}
	d.total.Counts.add(c.Counts)
	d.total.delay.add(&c.delay)
	d.total.variation.add(&c.variation)
}

func rows(groups map[flow.Key]*change) []Row {
	result := make([]Row, 0, len(groups))
	for key, c := range groups {
		result = append(result, Row{
			Key: key, Counts: c.Counts, Delay: c.delay.summary(), Variation: c.variation.summary(), values: c,
		})
	}
	slices.SortFunc(result, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Key.Sport, b.Key.Sport))
	})
	return result
}

// sweep removes flows. What came between reading and removing goes into the rows.
func (d *Destination) sweep(groups map[flow.Key]*change, by Granularity, tag uint64) error {
	now := uint64(time.Now().UnixNano())
	type aged struct {
		key  flow.Raw
		last uint64
	}
	var old, rest []aged
	for key, s := range d.flows {
		if s.last.LastNs+uint64(d.settings.Idle) < now {
			old = append(old, aged{key, s.last.LastNs})
		} else {
			rest = append(rest, aged{key, s.last.LastNs})
		}
	}
	d.expired += uint64(len(old))
	if len(rest) > d.settings.Flows*3/4 {
		slices.SortFunc(rest, func(a, b aged) int { return cmp.Compare(a.last, b.last) })
		excess := rest[:len(rest)-d.settings.Flows/2]
		d.evicted += uint64(len(excess))
		old = append(old, excess...)
	}
	for _, flow := range old {
		var f destinationFlow
		err := d.objects.Flows.LookupAndDelete(flow.key, &f)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove flow: %w", err)
		}
		if err == nil {
			d.enter(groups, by, flow.key, &f, tag)
		}
		d.total.Lost -= min(d.total.Lost, d.flows[flow.key].owed)
		delete(d.flows, flow.key)
	}
	return nil
}
