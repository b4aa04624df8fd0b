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

// readBatch is how many entries of a map one system call reads.
const readBatch = 128

// pageKey is struct page_key of page.h.
type pageKey struct {
	Flow flow.Raw
	Page uint32
}

// reading is one interval.
type reading struct {
	by      Granularity
	tag     uint64 // epoch that ends, plus one
	groups  map[flow.Key]*change
	spilled bool
}

// Read ends an interval: a row for each group of flows with new packets, most packets
// first. It also removes flows that have been idle, and, when the table is three
// quarters full, those that have been idle longest.
func (d *Destination) Read(by Granularity) ([]Row, error) {
	r := &reading{by: by, tag: uint64(d.epoch) + 1, groups: map[flow.Key]*change{}}
	d.epoch++
	if err := d.objects.Epoch.Set(d.epoch); err != nil {
		return nil, fmt.Errorf("begin interval: %w", err)
	}
	err := each(d.objects.Flows, func(key flow.Raw, f *destinationFlow) { d.enter(r, key, f) })
	if err != nil {
		return nil, fmt.Errorf("read flows: %w", err)
	}
	if r.spilled {
		if err := d.readPages(r); err != nil {
			return nil, err
		}
	}
	owed, err := d.sweep(r)
	if err != nil {
		return nil, err
	}
	for _, c := range r.groups {
		d.total.add(c)
	}
	d.total.Lost -= min(d.total.Lost, owed)
	return rows(r.groups), nil
}

// each reads every entry of a map.
func each[K, V any](m *ebpf.Map, f func(K, *V)) error {
	keys := make([]K, readBatch)
	values := make([]V, readBatch)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i := range n {
			f(keys[i], &values[i])
		}
		if err != nil {
			return nil
		}
	}
}

func (d *Destination) enter(r *reading, key flow.Raw, f *destinationFlow) {
	s := d.flows[key]
	if s == nil {
		s = &state{}
		d.flows[key] = s
	}
	r.spilled = r.spilled || spilled(f)
	if f.Packets == s.last.Packets {
		return
	}
	c := s.advance(f, r.tag)
	group := r.by.key(key.Key())
	if g := r.groups[group]; g != nil {
		g.add(c)
		c = g
	} else {
		r.groups[group] = c
	}
	s.group, s.tag = c, r.tag
}

// readPages reads the pages that are not in their flows. One without a flow was
// written while the flow was removed.
func (d *Destination) readPages(r *reading) error {
	var orphans []pageKey
	err := each(d.objects.Pages, func(key pageKey, page *destinationPage) {
		if s := d.flows[key.Flow]; s != nil {
			s.advancePage(key.Page, page, r.tag)
		} else {
			orphans = append(orphans, key)
		}
	})
	if err != nil {
		return fmt.Errorf("read pages: %w", err)
	}
	for _, key := range orphans {
		if err := d.objects.Pages.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove page: %w", err)
		}
	}
	return nil
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

// sweep removes flows. What came between reading and removing goes into the rows. It
// returns the losses that can no longer be paid back.
func (d *Destination) sweep(r *reading) (owed uint64, err error) {
	now := uint64(time.Now().UnixNano())
	var old, rest []flow.Raw
	for key, s := range d.flows {
		if s.last.LastNs+uint64(d.settings.Idle) < now {
			old = append(old, key)
		} else {
			rest = append(rest, key)
		}
	}
	d.expired += uint64(len(old))
	if len(rest) > d.settings.Flows*3/4 {
		slices.SortFunc(rest, func(a, b flow.Raw) int {
			return cmp.Compare(d.flows[a].last.LastNs, d.flows[b].last.LastNs)
		})
		excess := rest[:len(rest)-d.settings.Flows/2]
		d.evicted += uint64(len(excess))
		old = append(old, excess...)
	}
	for _, key := range old {
		if err := d.remove(r, key); err != nil {
			return 0, err
		}
		owed += d.flows[key].owed
		delete(d.flows, key)
	}
	return owed, nil
}

// remove takes a flow and its pages out of the maps.
func (d *Destination) remove(r *reading, key flow.Raw) error {
	var f destinationFlow
	err := d.objects.Flows.LookupAndDelete(key, &f)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove flow: %w", err)
	}
	d.enter(r, key, &f)
	if !spilled(&f) {
		return nil
	}
	for page := range uint32(4 * sidePages) {
		var p destinationPage
		err := d.objects.Pages.LookupAndDelete(pageKey{key, page}, &p)
		if err == nil {
			d.flows[key].advancePage(page, &p, r.tag)
		} else if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove page: %w", err)
		}
	}
	return nil
}
