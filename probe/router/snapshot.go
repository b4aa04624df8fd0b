package router

// Begin returns s as what the first interval begins with: it sees the packets that are
// inside the router now, since they end in it.
func (s Snapshot) Begin() Snapshot {
	s.Account.Seen -= s.Account.InFlight
	return s
}

// Sub is what came between before and s. States, which are no counts, are taken from s:
// packets in flight, and depths of queues.
func (s Snapshot) Sub(before Snapshot) Snapshot {
	difference := Snapshot{
		Time: s.Time, Account: s.Account.sub(before.Account),
		Queues: subQueues(s.Queues, before.Queues), Breaks: s.Breaks.Sub(before.Breaks),
	}
	for _, p := range s.Pairs {
		for _, q := range before.Pairs {
			if p.In.Index == q.In.Index && p.Out.Index == q.Out.Index {
				p = p.sub(q)
				break
			}
		}
		if p.Packets > 0 {
			difference.Pairs = append(difference.Pairs, p)
		}
	}
	for _, c := range s.Costs {
		for _, d := range before.Costs {
			if c.Program == d.Program {
				c.Runs -= d.Runs
				c.Time -= d.Time
			}
		}
		difference.Costs = append(difference.Costs, c)
	}
	return difference
}

func (p Pair) sub(before Pair) Pair {
	for i := range p.Stages {
		p.Stages[i] = p.Stages[i].Sub(&before.Stages[i])
	}
	p.Packets -= before.Packets
	p.Bytes -= before.Bytes
	p.Merged -= before.Merged
	return p
}

// sub leaves the difference closed but for what was in flight before: those packets
// end in the interval without having been seen in it.
func (a Account) sub(before Account) Account {
	a.Seen -= before.Seen
	a.NoArrival -= before.NoArrival
	a.Forwarded -= before.Forwarded
	a.Dropped -= before.Dropped
	a.Local -= before.Local
	a.Merged -= before.Merged
	a.Lost -= before.Lost
	a.Unexplained -= before.Unexplained
	a.Own -= before.Own
	a.Segments -= before.Segments
	a.Below -= before.Below
	a.DropReasons = subCounts(a.DropReasons, before.DropReasons)
	a.LostReasons = subCounts(a.LostReasons, before.LostReasons)
	a.Skipped = subCounts(a.Skipped, before.Skipped)
	return a
}

func subCounts(after, before map[string]uint64) map[string]uint64 {
	difference := map[string]uint64{}
	for name, n := range after {
		if n -= before[name]; n > 0 {
			difference[name] = n
		}
	}
	return difference
}

func add(a, b []uint64) []uint64 {
	return combine(a, b, func(x, y uint64) uint64 { return x + y })
}

func subtract(a, b []uint64) []uint64 {
	return combine(a, b, func(x, y uint64) uint64 { return x - y })
}

func combine(a, b []uint64, f func(x, y uint64) uint64) []uint64 {
	result := make([]uint64, max(len(a), len(b)))
	copy(result, a)
	for i := range b {
		result[i] = f(result[i], b[i])
	}
	return result
}
