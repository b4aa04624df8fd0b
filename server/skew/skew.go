// Package skew estimates the clock offset of each pair of hosts from the rows of the streams flows and
// clock as they are stored, and keeps the estimates of the last minutes; older ones are rows of the stream clock_pairs.
//
// It changes no row: delays are corrected where they are shown. Pairs with a common clock are
// left out. In the flow it is between ingest and the API; package measure/skew has the method.
package skew

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"pillion.dev/archive"
	"pillion.dev/internal/clock"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/skew"
)

const (
	// idleTime is how long a pair without rows is kept.
	idleTime = 15 * time.Minute
	// estimateEvery is the time between two estimates of a pair, which take up to half a millisecond; estimateFirst early in a segment.
	estimateEvery = 10 * time.Second
	estimateFirst = 2 * time.Second
	// storeEvery is the time between two stored ones, storeFirst early in a segment.
	storeEvery  = 30 * time.Second
	storeFirst  = 10 * time.Second
	segmentTime = time.Minute
	// recentTime is how long estimates are kept in memory; twice what the archive may lag.
	recentTime = 2 * time.Minute
	// rateChange is a change of a clock's frequency that begins a new segment.
	rateChangePPM = 1
)

// Clocks holds the estimates of all pairs.
type Clocks struct {
	store func(measure.Sample)
	most  int // pairs, and hosts
	log   *slog.Logger
	now   func() time.Time

	mutex   sync.Mutex
	pairs   map[name]*pair
	hosts   map[string]*host
	refused uint64
}

// name of a pair: the agents in alphabetical order. Forward is from the first to the second.
type name struct{ first, second string }

type pair struct {
	name      name
	estimator skew.Estimator
	// lows are the minima of the current second of each direction.
	lows          [2]low
	recent        []skew.Estimate // forward, oldest first
	seen          time.Time
	tried, stored time.Time
	last          skew.Estimate // that was stored
}

type low struct {
	second int64
	point  skew.Point
	any    bool
}

// host is the last row of a host's clock.
type host struct {
	at        time.Time
	frequency float64
}

// New returns a Clocks for at most so many pairs, about 5 KB each; store takes the rows of clock_pairs.
func New(store func(measure.Sample), most int, now func() time.Time, log *slog.Logger) *Clocks {
	return &Clocks{store: store, most: most, now: now, log: log, pairs: map[name]*pair{}, hosts: map[string]*host{}}
}

// Kept returns the number of pairs, and the number of rows of further ones, whose clocks are not compared.
func (c *Clocks) Kept() (pairs int, refused uint64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return len(c.pairs), c.refused
}

// Add adds a batch of flows or of clock.
func (c *Clocks) Add(batch archive.Batch) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if batch.Schema.Name == measure.Clock.Name {
		c.addClock(batch)
		return nil
	}
	for row, err := range flows.Rows(batch.Agent, batch.Record) {
		if err != nil {
			return err
		}
		c.addRow(row)
	}
	return nil
}

func (c *Clocks) addRow(row *flows.Row) {
	if row.Source == "" || row.Source == row.Destination || row.Delay.Count == 0 || row.ClockError.Known && row.ClockError.Ns == 0 {
		return
	}
	key, direction := name{row.Source, row.Destination}, skew.Forward
	if key.first > key.second {
		key, direction = name{row.Destination, row.Source}, skew.Backward
	}
	p := c.pairs[key]
	if p == nil {
		if len(c.pairs) >= c.most {
			if c.refused++; c.refused == 1 {
				c.log.Warn("too many pairs of hosts; the clocks of some are not compared", "limit", c.most)
			}
			return
		}
		key = name{strings.Clone(key.first), strings.Clone(key.second)}
		p = &pair{name: key}
		c.pairs[key] = p
	}
	p.seen = c.now()
	point := skew.Point{At: row.Middle(), Interval: row.Interval, MinNs: row.Delay.Min}
	low, second := &p.lows[direction], point.At.Unix()
	if low.any && low.second == second {
		if point.MinNs < low.point.MinNs {
			low.point = point
		}
		return
	}
	p.flush(direction)
	*low = lowOf(second, point)
}

func lowOf(second int64, point skew.Point) low { return low{second, point, true} }

// flush passes the minimum of a second on: rows of one second have many flows.
func (p *pair) flush(d skew.Direction) {
	if low := &p.lows[d]; low.any {
		p.estimator.Add(d, low.point)
		low.any = false
	}
}

// addClock begins segments where the clock of a host was set.
func (c *Clocks) addClock(batch archive.Batch) {
	column := func(name string) int {
		indices := batch.Record.Schema().FieldIndices(name)
		if len(indices) == 0 {
			return -1
		}
		return indices[0]
	}
	at, step, frequency := column(measure.TimeField.Name), column("step_ns"), column("frequency_ppm")
	if at < 0 || step < 0 || frequency < 0 {
		return
	}
	for i := range int(batch.Record.NumRows()) {
		value := func(column int) measure.Value {
			v, _ := measure.ValueAt(batch.Record.Column(column), i)
			return v
		}
		c.clockRow(batch.Agent, value(at).Time(), value(step).Int64(), value(frequency).Float64())
	}
}

func (c *Clocks) clockRow(agent string, at time.Time, step int64, frequency float64) {
	before := c.hosts[agent]
	if before == nil {
		if len(c.hosts) < c.most {
			c.hosts[strings.Clone(agent)] = &host{at, frequency}
		}
		return
	}
	since := before.at
	if age := at.Sub(since); age <= 0 || age > idleTime {
		since = at.Add(-idleTime)
	}
	changed := math.Abs(frequency-before.frequency) > rateChangePPM
	*before = host{at, frequency}
	if time.Duration(step).Abs() < clock.StepMin {
		step = 0
	}
	if step == 0 && !changed {
		return
	}
	for key, p := range c.pairs {
		switch agent {
		case key.first:
			p.step(since, at, -float64(step))
		case key.second:
			p.step(since, at, float64(step))
		}
	}
}

func (p *pair) step(since, at time.Time, ns float64) {
	p.flush(skew.Forward)
	p.flush(skew.Backward)
	p.estimator.Step(since, at, ns)
}

// Tick computes estimates that are due, stores some of them, and forgets pairs without rows.
func (c *Clocks) Tick() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now := c.now()
	for key, p := range c.pairs {
		if now.Sub(p.seen) > idleTime {
			delete(c.pairs, key)
			continue
		}
		if now.Sub(p.tried) < p.every() || p.seen.Before(p.tried) {
			continue
		}
		p.tried = now
		if e, ok := p.estimator.Estimate(); ok {
			c.take(p, e, now)
		}
	}
	for agent, h := range c.hosts {
		if h.at.Before(now.Add(-24 * time.Hour)) {
			delete(c.hosts, agent)
		}
	}
}

// every is the time until the next estimate.
func (p *pair) every() time.Duration {
	if n := len(p.recent); n > 0 && p.recent[n-1].Until.Sub(p.recent[n-1].Segment) > segmentTime {
		return estimateEvery
	}
	return estimateFirst
}

// take keeps an estimate, and stores it if it is due.
func (c *Clocks) take(p *pair, e skew.Estimate, now time.Time) {
	if n := len(p.recent); n > 0 && p.recent[n-1].Until.Equal(e.Until) && p.recent[n-1].Segment.Equal(e.Segment) {
		return
	}
	if n := len(p.recent); n > 0 && !p.recent[n-1].Segment.Equal(e.Segment) {
		c.keep(p, p.recent[n-1]) // no better one of its segment comes
	}
	p.recent = append(p.recent, e)
	old := 0
	for p.recent[len(p.recent)-1].Until.Sub(p.recent[old].Until) > recentTime {
		old++
	}
	p.recent = slices.Delete(p.recent, 0, old)
	every := storeEvery
	if e.Until.Sub(e.Segment) < segmentTime {
		every = storeFirst
	}
	if p.last.Segment.Equal(e.Segment) && now.Sub(p.stored) < every {
		return
	}
	p.stored = now
	c.keep(p, e)
}

// keep stores an estimate, unless it was the last to be stored.
func (c *Clocks) keep(p *pair, e skew.Estimate) {
	if p.last.Segment.Equal(e.Segment) && p.last.Until.Equal(e.Until) {
		return
	}
	p.last = e
	c.store(sampleOf(p.name.first, p.name.second, e))
	c.store(sampleOf(p.name.second, p.name.first, e.Reverse()))
}

// Recent returns the estimates of the last minutes for the delays from a source to a destination, oldest first.
func (c *Clocks) Recent(source, destination string) []skew.Estimate {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if p := c.pairs[name{source, destination}]; p != nil {
		return slices.Clone(p.recent)
	}
	var list []skew.Estimate
	if p := c.pairs[name{destination, source}]; p != nil {
		for _, e := range p.recent {
			list = append(list, e.Reverse())
		}
	}
	return list
}

// Pair is the latest estimate for the delays from a source to a destination.
type Pair struct {
	Source, Destination string
	skew.Estimate
}

// Latest returns the latest estimates of all pairs, by name; an empty source or destination matches any.
func (c *Clocks) Latest(source, destination string) (list []Pair) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	add := func(from, to string, e skew.Estimate) {
		if (source == "" || source == from) && (destination == "" || destination == to) {
			list = append(list, Pair{from, to, e})
		}
	}
	for key, p := range c.pairs {
		if n := len(p.recent); n > 0 {
			add(key.first, key.second, p.recent[n-1])
			add(key.second, key.first, p.recent[n-1].Reverse())
		}
	}
	slices.SortFunc(list, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination))
	})
	return list
}
