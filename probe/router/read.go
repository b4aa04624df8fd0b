package router

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unsafe"
)

// Snapshot reads everything since the start.
func (r *Router) Snapshot() (Snapshot, error) {
	s := Snapshot{Time: time.Now()}
	names, err := r.Interfaces()
	if err != nil {
		return s, err
	}
	if s.Queues, err = r.readQueues(names); err != nil {
		return s, fmt.Errorf("read queues: %w", err)
	}
	if s.Breaks, err = r.readBreaks(); err != nil {
		return s, fmt.Errorf("read breaks: %w", err)
	}
	if s.Pairs, err = r.pairs(names); err != nil {
		return s, fmt.Errorf("read pairs: %w", err)
	}
	if s.Account, err = r.account(); err != nil {
		return s, fmt.Errorf("read account: %w", err)
	}
	if s.Costs, err = r.costs(); err != nil {
		return s, fmt.Errorf("read costs: %w", err)
	}
	return s, nil
}

// Interfaces are the names of the present interfaces, by index.
func (r *Router) Interfaces() (map[int]string, error) {
	links, err := r.interfaces.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	return names, nil
}

// identify names an interface; one that is gone has its number for a name.
func identify(names map[int]string, index int) Interface {
	if index == 0 {
		return Interface{}
	}
	return Interface{Index: index, Name: cmp.Or(names[index], strconv.Itoa(index))}
}

func (r *Router) pairs(names map[int]string) ([]Pair, error) {
	var keys [maxPairs]uint64
	if err := r.collection.Variables[routerVarPairKeys].Get(&keys); err != nil {
		return nil, err
	}
	var all []Pair
	for place := 0; place <= r.places; place++ {
		var key uint64
		if place > 0 {
			if key = keys[place-1]; key == 0 {
				continue
			}
		}
		pair := Pair{In: identify(names, int(key>>32)), Out: identify(names, int(uint32(key)))}
		for shard := range r.shards {
			if err := r.addPair(&pair, uint32(place*r.shards+shard)); err != nil {
				return nil, err
			}
		}
		if pair.Packets = pair.Stages[OutputQueuing].Count; pair.Packets > 0 {
			all = append(all, pair)
		}
	}
	slices.SortFunc(all, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.In.Index, b.In.Index), cmp.Compare(a.Out.Index, b.Out.Index))
	})
	return all, nil
}

// addPair adds one processor's copy.
func (r *Router) addPair(pair *Pair, at uint32) error {
	raw := new(routerPair)
	// As bytes: the kernel writes right into it, nothing is decoded.
	buffer := unsafe.Slice((*byte)(unsafe.Pointer(raw)), unsafe.Sizeof(*raw))
	if err := r.collection.Maps[routerMapPairs].Lookup(&at, buffer); err != nil {
		return err
	}
	if raw.Bytes == 0 {
		return nil
	}
	pair.Bytes += raw.Bytes
	pair.Merged += raw.Merged
	for stage := range pair.Stages {
		pair.Stages[stage].read(raw.Extremes[stage], &raw.Buckets[stage])
	}
	return nil
}

func (r *Router) costs() ([]Cost, error) {
	if !r.counted {
		return nil, nil
	}
	var costs []Cost
	for name, program := range r.collection.Programs {
		stats, err := program.Stats()
		if err != nil {
			return nil, fmt.Errorf("read cost of %s: %w", name, err)
		}
		costs = append(costs, Cost{Program: name, Runs: stats.RunCount, Time: stats.Runtime})
	}
	slices.SortFunc(costs, func(a, b Cost) int { return cmp.Compare(a.Program, b.Program) })
	return costs, nil
}

// tally is the sum of all processors' counters.
func (r *Router) tally() (routerTally, error) {
	var each []routerTally
	var sum routerTally
	if err := r.collection.Maps[routerMapTallies].Lookup(uint32(0), &each); err != nil {
		return sum, err
	}
	for _, t := range each {
		sum.Seen += t.Seen
		sum.Forwarded += t.Forwarded
		sum.Below += t.Below
		sum.Late += t.Late
		sum.Dropped += t.Dropped
		sum.Local += t.Local
		sum.Merged += t.Merged
		sum.Own += t.Own
		sum.Segments += t.Segments
		sum.RecordsLost += t.RecordsLost
		for i := range t.Lost {
			sum.Lost[i] += t.Lost[i]
		}
		for i := range t.Skipped {
			sum.Skipped[i] += t.Skipped[i]
		}
	}
	return sum, nil
}

// inFlight counts the packets that are remembered.
func (r *Router) inFlight() (uint64, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	var count uint64
	if err := r.collection.Variables[routerVarPacketKeys].Get(r.keys); err != nil {
		return 0, err
	}
	for _, key := range r.keys {
		if key != 0 {
			count++
		}
	}
	var over uint64
	err := r.collection.Variables[routerVarOverflowUsed].Get(&over)
	return count + over, err
}
